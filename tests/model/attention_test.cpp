// How attention calls a scheme's hooks, on schemes made for the purpose. That the registered ones come out right is for
// conformance and golden tests.
#include "model/attention.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace posenc {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Frame frame_of(std::int64_t length, double spacing = 1) {
  return {{torch::arange(length, torch::kFloat64), spacing}, {torch::arange(length, torch::kFloat64), spacing}, 0, 16};
}

Tensor random(torch::IntArrayRef shape, std::uint64_t seed) {
  return torch::empty(shape, torch::kFloat64).normal_(0, 1, torch::make_generator<torch::CPUGeneratorImpl>(seed));
}

/// Random content, leaves of the graph.
Content random_content(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t width) {
  Content c{random({batch, heads, length, width}, 1), random({batch, heads, length, width}, 2),
            random({batch, heads, length, width}, 3), random({batch, length, heads * width}, 4)};
  for (Tensor* t : {&c.q, &c.k, &c.v, &c.x}) t->requires_grad_();
  return c;
}

Tensor attend(const Scheme& scheme, bool content_dependent, const Content& c, const Frame& frame, std::int64_t block_rows = 0) {
  const AttentionPath path = block_rows == 0 ? AttentionPath::kReference : AttentionPath::kBlocked;
  const AttentionOptions options{path, c.q.scalar_type(), c.q.size(0), c.q.size(1), block_rows};
  return AttentionPlan(scheme, {.content_dependent = content_dependent}, frame, options)({c.q, c.k, c.v, c.x});
}

/// Output and gradients of a weighted sum of it, for content and parameters.
std::vector<Tensor> with_gradients(const Scheme& scheme, const Content& c, const Frame& frame, std::int64_t block_rows) {
  const Tensor y = attend(scheme, true, c, frame, block_rows);
  std::vector<Tensor> inputs = {c.q, c.k, c.v, c.x};
  for (const Tensor& p : scheme.parameters()) inputs.push_back(p);
  std::vector<Tensor> all = torch::autograd::grad({(y * random(y.sizes(), 9)).sum()}, inputs);
  all.push_back(y);
  return all;
}

/// A scheme by name with its default parameters.
std::shared_ptr<Scheme> named(const std::string& name, std::int64_t heads) {
  const SchemeInfo* info = find_registered(schemes(), name);
  std::vector<Problem> problems;
  const Document empty{Json::object(), "", {}};
  return make_scheme(name, info->resolve(empty.root, Reader(empty, problems)),
                     {.d_model = 8 * heads, .heads = heads, .kv_heads = heads, .head_dim = 8});
}

/// The attention weights [H, T, T] when all logits but the bias are zero: values are unit vectors.
Tensor weights_without_content(const Scheme& scheme, std::int64_t heads, std::int64_t length, std::int64_t block_rows = 0) {
  const Tensor zero = torch::zeros({1, heads, length, length}, torch::kFloat64);
  const Tensor unit = torch::eye(length, torch::kFloat64).expand({1, heads, length, length});
  return attend(scheme, false, {zero, zero, unit, torch::zeros({1, length, 1}, torch::kFloat64)}, frame_of(length),
                block_rows)[0];
}

std::vector<double> values(const Tensor& t) {
  const Tensor flat = t.detach().to(torch::kFloat64).contiguous().flatten();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

// Fault 3: head 1 of 8 has the slope 0.5, and near tokens are favoured: the softmax of -1, -0.5, 0.
TEST(Attention, AlibiDampsTheFar) {
  const auto alibi = named("alibi", 8);
  for (const std::int64_t rows : {0, 1, 2}) {
    const auto last = values(weights_without_content(*alibi, 8, 3, rows)[0][2]);
    EXPECT_NEAR(last[0], 0.18632, 5e-6);
    EXPECT_NEAR(last[1], 0.30720, 5e-6);
    EXPECT_NEAR(last[2], 0.50648, 5e-6);
  }
}

// Without positions and content every key seen weighs the same. Fault 39: the first row, which sees one key, is no special case.
TEST(Attention, WithoutPositionsRowIIsUniform) {
  const auto none = named("none", 1);
  for (const std::int64_t rows : {0, 1, 3}) {
    const Tensor weights = weights_without_content(*none, 1, 4, rows)[0];
    EXPECT_THAT(values(weights[0]), ElementsAre(1, 0, 0, 0));
    EXPECT_THAT(values(weights[1]), ElementsAre(0.5, 0.5, 0, 0));
    EXPECT_THAT(values(weights[3]), ElementsAre(0.25, 0.25, 0.25, 0.25));
    EXPECT_NEAR(values(weights[2])[2], 1.0 / 3, 1e-15);
  }
}

// Head width 4: q·k = 2 becomes a logit of 1 beside one of 0, and the weights are e/(e + 1) and 1/(e + 1).
TEST(Attention, LogitsAreDividedByTheRootOfTheHeadWidth) {
  const Scheme none;
  Tensor q = torch::zeros({1, 1, 2, 4}, torch::kFloat64), k = torch::zeros({1, 1, 2, 4}, torch::kFloat64);
  q[0][0][1][2] = 2;
  k[0][0][0][2] = 1;
  const Content c{q, k, torch::eye(4, torch::kFloat64).slice(0, 0, 2).view({1, 1, 2, 4}),
                  torch::zeros({1, 2, 4}, torch::kFloat64)};
  for (const std::int64_t rows : {0, 1}) {
    const auto last = values(attend(none, false, c, frame_of(2), rows)[0][0][1]);
    EXPECT_NEAR(last[0], 0.7310586, 5e-8);
    EXPECT_NEAR(last[1], 0.2689414, 5e-8);
  }
}

TEST(Attention, TheMaskedBiasHoldsNegativeInfinityForTheFuture) {
  const auto alibi = named("alibi", 4);  // slopes 0.25, 0.0625, …
  const Frame whole = frame_of(5);
  const Frame block{whole.queries.slice(3, 5), whole.keys, 3, 16};
  for (const double spacing : {1.0, 0.0}) {
    Frame frame = block;
    frame.queries.spacing = frame.keys.spacing = spacing;
    const Tensor bias = masked_bias(*alibi, frame, torch::kFloat64);
    ASSERT_EQ(bias.sizes(), torch::IntArrayRef({4, 2, 5}));
    EXPECT_THAT(values(bias[0][0]), ElementsAre(-0.75, -0.5, -0.25, 0, -kInfinity));
    EXPECT_THAT(values(bias[1][1]), ElementsAre(-0.25, -0.1875, -0.125, -0.0625, 0));
  }
}

/// ALiBi with four heads, spelt out for every pair.
class DenseAlibi : public Scheme {
 public:
  bool dense_bias() const override { return true; }
  Tensor bias(const Frame& frame) const override {
    const Tensor slopes = torch::tensor({0.25, 0.0625, 0.015625, 0.00390625}, torch::kFloat64).view({4, 1, 1});
    return slopes * (frame.keys.values.unsqueeze(0) - frame.queries.values.unsqueeze(1));
  }
};

TEST(Attention, ADenseBiasEqualToAlibiGivesItsOutput) {
  const DenseAlibi dense;
  const auto alibi = named("alibi", 4);
  const Content c = random_content(2, 4, 11, 8);
  const Tensor expected = attend(*alibi, false, c, frame_of(11));
  for (const std::int64_t rows : {0, 1, 4}) {
    EXPECT_TRUE(torch::allclose(attend(dense, false, c, frame_of(11), rows), expected, 1e-13, 1e-13)) << rows;
    EXPECT_TRUE(torch::allclose(attend(*alibi, false, c, frame_of(11, 0), rows), expected, 1e-13, 1e-13))
        << rows << ", unspaced positions";
  }
}

/// Notes what every hook was given.
class Witness : public Scheme {
 public:
  Tensor score(const Tensor& s, const Content& c, const Frame& frame) const override {
    note("score", {s, c.q, c.k, c.v, c.x}, frame.first_query);
    return s;
  }
  Tensor weights(const Tensor& s, const Frame& frame) const override {
    note("weights", {s}, frame.first_query);
    return Scheme::weights(s, frame);
  }
  Tensor mix(const Tensor& y, const Tensor& weights, const Frame& frame) const override {
    note("mix", {y, weights}, frame.first_query);
    return y;
  }
  std::vector<std::string> calls() const {
    auto all = calls_;
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  void note(const std::string& hook, const std::vector<Tensor>& given, std::int64_t first_query) const {
    std::ostringstream text;
    text << hook;
    for (const Tensor& t : given) text << " " << t.sizes();
    text << " from " << first_query;
    const std::lock_guard lock(mutex_);
    calls_.push_back(text.str());
  }
  mutable std::mutex mutex_;
  mutable std::vector<std::string> calls_;
};

TEST(Attention, HooksSeeTheBlockOfQueriesAndTheKeysItMaySee) {
  const torch::NoGradGuard no_grad;
  const Content c = random_content(2, 3, 5, 4);
  const Witness whole, blocks, indifferent;
  attend(whole, true, c, frame_of(5));
  EXPECT_THAT(whole.calls(), UnorderedElementsAre("score [2, 3, 5, 5] [2, 3, 5, 4] [2, 3, 5, 4] [2, 3, 5, 4] [2, 5, 12] from 0",
                                                  "weights [2, 3, 5, 5] from 0", "mix [2, 3, 5, 4] [2, 3, 5, 5] from 0"));
  attend(blocks, true, c, frame_of(5), 3);
  EXPECT_THAT(blocks.calls(), UnorderedElementsAre("score [2, 3, 3, 3] [2, 3, 3, 4] [2, 3, 3, 4] [2, 3, 3, 4] [2, 3, 12] from 0",
                                                   "weights [2, 3, 3, 3] from 0", "mix [2, 3, 3, 4] [2, 3, 3, 3] from 0",
                                                   "score [2, 3, 2, 5] [2, 3, 2, 4] [2, 3, 5, 4] [2, 3, 5, 4] [2, 5, 12] from 3",
                                                   "weights [2, 3, 2, 5] from 3", "mix [2, 3, 2, 4] [2, 3, 2, 5] from 3"));
  attend(indifferent, false, c, frame_of(5));  // a scheme that does not depend on content is not asked to score
  EXPECT_THAT(indifferent.calls(), UnorderedElementsAre("weights [2, 3, 5, 5] from 0", "mix [2, 3, 5, 4] [2, 3, 5, 5] from 0"));
}

/// Uses every hook, with parameters: content-dependent logits from q, k, v and x, weights that are no softmax, values by
/// distance.
class Everything : public Scheme {
 public:
  Everything() {
    by_head_ = register_parameter("by_head", random({2}, 5));
    by_distance_ = register_parameter("by_distance", random({32, 4}, 6));
  }
  Tensor distance_bias(const Tensor& d) const override { return by_head_.unsqueeze(1) * torch::log1p(d); }
  Tensor score(const Tensor& s, const Content& c, const Frame&) const override {
    const Tensor of_key = (c.k * c.v).sum(-1).unsqueeze(2) + c.x.mean(-1).view({c.x.size(0), 1, 1, -1});  // [B, H, 1, K]
    return s + of_key * by_head_.view({1, -1, 1, 1}) + c.q.sum(-1, true).tanh();
  }
  Tensor weights(const Tensor& s, const Frame&) const override { return torch::sigmoid(s); }
  Tensor mix(const Tensor& y, const Tensor& weights, const Frame& frame) const override {
    const Tensor distance =
        (frame.queries.values.unsqueeze(1) - frame.keys.values.unsqueeze(0)).clamp_min(0).to(torch::kInt64);  // [Q, K]
    const Tensor terms = by_distance_.index_select(0, distance.flatten()).view({distance.size(0), distance.size(1), -1});
    return y + torch::einsum("bhqk,qkd->bhqd", {weights, terms});
  }

 private:
  Tensor by_head_, by_distance_;
};

TEST(Attention, BlocksGiveTheWholeForASchemeOfEveryHook) {
  const Everything scheme;
  const Content c = random_content(2, 2, 11, 4);
  const auto whole = with_gradients(scheme, c, frame_of(11), 0);
  for (const std::int64_t rows : {1, 4, 11}) {
    const auto blocks = with_gradients(scheme, c, frame_of(11), rows);
    ASSERT_EQ(blocks.size(), 7u);  // of q, k, v, x and two parameters, and the output
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_GT(whole[i].abs().max().item<double>(), 0.01) << i;
      EXPECT_TRUE(torch::allclose(blocks[i], whole[i], 1e-12, 1e-12)) << i << ", " << rows << " rows";
    }
  }
}

/// Loves the future.
class Peeking : public Scheme {
 public:
  Tensor score(const Tensor& s, const Content&, const Frame&) const override {
    return torch::where(s.isinf(), torch::full_like(s, 1e30), s);
  }
};

TEST(Attention, NoScoreLetsAFutureKeyThrough) {
  const Peeking peeking;
  const Scheme none;
  const Content c = random_content(1, 2, 6, 4);
  for (const std::int64_t rows : {0, 4})
    EXPECT_TRUE(torch::equal(attend(peeking, true, c, frame_of(6), rows), attend(none, false, c, frame_of(6), rows)));
}

// 8 heads, 4096 queries and keys of 4 bytes: a row of logits takes 128 KiB, and 64 (inference) or 512 (training) of them fill 8
// and 64 MiB.
TEST(AttentionPath, BlocksKeepTheirLogitsSmall) {
  const LogitsShape large{1, 8, 4096, 4096, 4}, huge{4, 32, 8, 1 << 20, 8};
  EXPECT_EQ(attention_block_rows(large, false), 64);
  EXPECT_EQ(attention_block_rows(large, true), 512);
  EXPECT_EQ(attention_block_rows(huge, false), 1);
}

TEST(AttentionPath, IsTheFusedOneWhereTheSchemeAllowsAndElseFollowsFromTheSize) {
  const torch::NoGradGuard no_grad;
  const auto chosen = [](const char* scheme, AttentionPath wanted, std::int64_t length, torch::ScalarType dtype,
                         double spacing = 1) {
    const AttentionOptions options{.path = wanted, .dtype = dtype, .heads = 8};
    const SchemeTraits& traits = find_registered(schemes(), scheme)->traits;
    return std::string(attention_path_name(choose_attention(*named(scheme, 8), traits, frame_of(length, spacing), options)));
  };
  const auto any = AttentionPath::kAuto, fused = AttentionPath::kFused;
  for (const char* scheme : {"none", "rope", "alibi", "t5", "xpos", "kerple_log", "fox", "shaw", "transformer_xl", "fire"})
    EXPECT_EQ(chosen(scheme, any, 128, torch::kFloat32), "fused") << scheme;
  for (const char* scheme : {"cope", "dape", "stick_breaking", "deberta", "path"}) {
    EXPECT_EQ(chosen(scheme, any, 128, torch::kFloat32), "reference") << scheme;
    EXPECT_EQ(chosen(scheme, fused, 4096, torch::kFloat32), "blocked") << scheme;
  }
  EXPECT_EQ(chosen("alibi", any, 128, torch::kFloat64), "reference");
  EXPECT_EQ(chosen("alibi", any, 4096, torch::kFloat64), "blocked");
  EXPECT_EQ(chosen("alibi", any, 128, torch::kFloat32, /*spacing=*/0), "reference");  // distances are not indices
  EXPECT_EQ(chosen("fire", any, 128, torch::kFloat32, /*spacing=*/0), "reference");
  EXPECT_EQ(chosen("rope", any, 128, torch::kFloat32, /*spacing=*/0), "fused");
  EXPECT_EQ(chosen("alibi", AttentionPath::kReference, 4096, torch::kFloat32), "reference");
  EXPECT_EQ(chosen("alibi", AttentionPath::kBlocked, 128, torch::kFloat32), "blocked");
}

TEST(AttentionPath, HasANameBothWays) {
  for (const char* name : {"auto", "reference", "blocked", "fused"})
    EXPECT_STREQ(attention_path_name(attention_path(name)), name);
  EXPECT_THROW(attention_path("flash"), std::logic_error);
}

}  // namespace
}  // namespace posenc
