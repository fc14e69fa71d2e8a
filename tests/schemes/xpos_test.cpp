#include <gmock/gmock.h>

#include "schemes/info.h"
#include "schemes/scheme.h"

namespace posenc {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::shared_ptr<Scheme> xpos(std::int64_t head_dim, Json parameters = Json::object()) {
  return make_scheme("xpos", parameters, {.head_dim = head_dim});
}

Frame frame_of(const Tensor& positions) { return {{positions, 0}, {positions, 0}}; }

/// Unscaled scores [n, n] of queries x on keys x at the positions.
Tensor scores(const Scheme& scheme, const Tensor& x, const Tensor& positions) {
  const Frame frame = frame_of(positions);
  return torch::matmul(scheme.rotate(x, Side::kQuery, frame), scheme.rotate(x, Side::kKey, frame).transpose(2, 3))[0][0];
}

Tensor vectors(std::int64_t n, std::int64_t width) {
  return torch::empty({1, 1, n, width}, torch::kFloat64).normal_(0, 1, torch::make_generator<torch::CPUGeneratorImpl>(3));
}

// Sun et al. 2022: after scale_base tokens the pairs have decayed to (2k/R + 0.4)/1.4, after a quarter of that to its fourth root.
// One pair at a time shows |q·k|'s decay when the angle is a whole turn; so the lengths of q and k themselves are compared.
TEST(Xpos, PairsDecayByTheirZetaOverTheScaleBase) {
  const auto decay = [](double distance) {
    const Tensor positions = torch::tensor({0.0, distance}, torch::kFloat64);
    const Frame frame = frame_of(positions);
    const Tensor ones = torch::ones({1, 1, 2, 8}, torch::kFloat64);
    const auto lengths = [&](Side side) {
      return xpos(8)->rotate(ones, side, frame)[0][0].view({2, 4, 2}).norm(2, -1);
    };                                                                                            // [2, 4]
    const Tensor product = (lengths(Side::kQuery)[1] * lengths(Side::kKey)[0] / 2).contiguous();  // query last, key first
    return std::vector<double>(product.data_ptr<double>(), product.data_ptr<double>() + 4);
  };
  EXPECT_THAT(decay(512), Pointwise(DoubleNear(5e-9), {0.28571429, 0.46428571, 0.64285714, 0.82142857}));
  EXPECT_THAT(decay(128), Pointwise(DoubleNear(5e-7), {0.731110, 0.825461, 0.895424, 0.952012}));
}

TEST(Xpos, WithAnEndlessScaleBaseItIsRope) {
  const Tensor x = vectors(6, 8), positions = torch::tensor({0.0, 1.0, 5.0, 700.0, 1e4, 1e5}, torch::kFloat64);
  for (const char* layout : {"half_split", "interleaved"}) {
    const auto endless = xpos(8, {{"scale_base", 1e30}, {"layout", layout}});
    const auto rope = make_scheme("rope", {{"layout", layout}}, {.head_dim = 8});
    for (const Side side : {Side::kQuery, Side::kKey}) {
      EXPECT_TRUE(torch::equal(endless->rotate(x, side, frame_of(positions)), rope->rotate(x, side, frame_of(positions))));
    }
  }
}

// Peers disagree on the centre; one that differed between queries and keys, or by block, would change the scores.
TEST(Xpos, ScoresDoNotDependOnTheCentre) {
  const Tensor x = vectors(7, 8), positions = torch::arange(7, torch::kFloat64);
  const auto scheme = xpos(8, {{"scale_base", 4}});
  const Tensor all = scores(*scheme, x, positions);
  for (const std::int64_t shift : {100, 300000})
    EXPECT_TRUE(torch::allclose(scores(*scheme, x, positions + shift), all, 0, 1e-8)) << shift;
  for (const std::int64_t keys : {1, 4, 5}) {  // the first keys alone, whose middle is elsewhere
    const Tensor some = scores(*scheme, x.slice(2, 0, keys), positions.slice(0, 0, keys));
    EXPECT_TRUE(torch::allclose(some, all.slice(0, 0, keys).slice(1, 0, keys), 0, 1e-12)) << keys;
  }
  // The last two queries on all keys.
  const Frame decode{{positions.slice(0, 5), 1}, {positions, 1}, 5};
  const Tensor last = torch::matmul(scheme->rotate(x.slice(2, 5), Side::kQuery, decode),
                                    scheme->rotate(x, Side::kKey, decode).transpose(2, 3))[0][0];
  EXPECT_TRUE(torch::allclose(last, all.slice(0, 5), 0, 1e-12));
}

// e^(1.25·131072/512) would be 1e139; also products of queries with keys behind them, which the mask hides later, stay finite.
TEST(Xpos, StaysFiniteInSinglePrecisionAt131072Positions) {
  const auto scheme = xpos(8);
  const Tensor positions = torch::arange(131072, torch::kFloat64);
  const Tensor x = torch::full({1, 1, 131072, 8}, 100.0, torch::kFloat32);
  const Frame frame = frame_of(positions);
  const Tensor q = scheme->rotate(x, Side::kQuery, frame), k = scheme->rotate(x, Side::kKey, frame);
  EXPECT_TRUE(q.isfinite().all().item<bool>());
  EXPECT_TRUE(k.isfinite().all().item<bool>());
  EXPECT_TRUE(torch::matmul(q[0][0].slice(0, 0, 64), k[0][0].slice(0, 131072 - 64).t()).isfinite().all().item<bool>());
}

// Lengths of the fastest pair: exact within 28.7 scale bases of the centre, held at e^36 beyond.
TEST(Xpos, ScalesAreExactWithinTheStatedReachAndHeldBeyond) {
  const auto scheme = xpos(8, {{"scale_base", 1}});
  const Tensor positions = torch::tensor({0.0, 25.0, 50.0, 78.0, 100.0}, torch::kFloat64);  // the middle key is at 50
  Tensor x = torch::zeros({1, 1, 5, 8}, torch::kFloat64);
  x.select(3, 0).fill_(1);
  const Tensor lengths = scheme->rotate(x, Side::kKey, frame_of(positions))[0][0].norm(2, -1).log();
  const double rate = 1.2527629684953681;  // ln 3.5
  for (const auto& [at, expected] :
       {std::pair(0, -36.0), std::pair(1, -25 * rate), std::pair(2, 0.0), std::pair(3, 28 * rate), std::pair(4, 36.0)}) {
    EXPECT_NEAR(lengths[at].item<double>(), expected, 1e-9) << at;
  }
}

TEST(Xpos, TrainingBeyondItsReachIsRefused) {
  const SchemeInfo& info = *find_registered(schemes(), "xpos");
  const auto problem = [&](const Json& given, std::int64_t positions, std::int64_t head_dim) -> std::string {
    std::vector<Problem> problems;
    const Document document{given, "test", {}};
    const Reader reader(document, problems);
    info.check(info.resolve(given, reader), {.head_dim = head_dim, .positions = positions}, reader);
    return problems.empty() ? "" : problems[0].pointer + ": " + problems[0].rule;
  };
  EXPECT_EQ(problem(Json::object(), 29426, 8), "");
  EXPECT_THAT(problem(Json::object(), 29427, 8), HasSubstr("/scale_base: 29427 positions"));
  EXPECT_EQ(problem({{"scale_base", 1024}}, 29427, 8), "");
  EXPECT_THAT(problem(Json::object(), 128, 65), HasSubstr("head_dim 65 is odd"));
}

}  // namespace
}  // namespace posenc
