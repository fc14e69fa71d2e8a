#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

TEST(None, ChangesNothingAndLearnsNothing) {
  const auto none =
      make_scheme("none", Json::object(), {.d_model = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .train_length = 4});
  const Tensor x = torch::rand({1, 3, 8}), q = torch::rand({1, 2, 3, 4}), s = torch::rand({1, 2, 3, 3});
  const Positions far{torch::tensor({100000.0, 100001.0, 100002.0}, torch::kFloat64)};
  const Frame frame{far, far, 0, 4};
  EXPECT_TRUE(torch::equal(none->embed(x, frame), x));
  EXPECT_TRUE(torch::equal(none->rotate(q, Side::kQuery, {far, far}), q));
  EXPECT_FALSE(none->rotates());
  EXPECT_FALSE(none->distance_bias(far.values).defined());
  EXPECT_FALSE(none->bias(frame).defined());
  EXPECT_TRUE(torch::equal(none->score(s, {}, frame), s));
  EXPECT_TRUE(torch::equal(none->mix(q, s, frame), q));
  EXPECT_EQ(none->parameters().size(), 0u);
}

}  // namespace
}  // namespace posenc
