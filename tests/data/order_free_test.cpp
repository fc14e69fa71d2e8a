#include "data/order_free.h"

#include <gmock/gmock.h>

namespace posenc {
namespace {

Dataset dataset_of(const std::string& train, const std::string& valid, const std::string& test) {
  Dataset d;
  d.tokenizer = make_tokenizer("byte", "", "test");
  d.train = {"train", d.tokenizer->encode(train, "train"), 0, "", ""};
  d.valid = {"valid", d.tokenizer->encode(valid, "valid"), 0, "", ""};
  d.test = {"test", d.tokenizer->encode(test, "test"), 0, "", ""};
  return d;
}

// 744 bytes of training: 499 a, 244 b and one other; with one added to each of 256 counts, of 1000: a 0.5, b 0.245.
TEST(OrderFree, TheUnigramLossIsThatOfTheTrainingFrequencies) {
  const Dataset d = dataset_of(std::string(499, 'a') + std::string(244, 'b') + "c", "abab", "abab");
  EXPECT_NEAR(order_free_loss(d, "test", 2).unigram, (0.69314718 + 1.40649707) / 2, 1e-8);  // a and b: −ln 0.5, −ln 0.245
}

// In a text that repeats one byte the context knows more than the frequencies, and takes the largest share there is.
TEST(OrderFree, TheContextIsMixedInWhereItHelps) {
  const Dataset d = dataset_of(std::string(744, 'b'), std::string(50, 'z'), std::string(50, 'z'));
  const OrderFreeLoss loss = order_free_loss(d, "test", 10);
  EXPECT_DOUBLE_EQ(loss.mixture, 0.95);
  EXPECT_NEAR(loss.bag_of_context, 0.05124066, 1e-8);  // −ln(0.95 + 0.05/1000)
  EXPECT_NEAR(loss.unigram, 6.90775528, 1e-8);         // −ln(1/1000)
}

// Alternating letters: order would tell everything, the bag says one half each, less than nothing over the frequencies.
TEST(OrderFree, OrderIsNotUsed) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "ab";
  const OrderFreeLoss loss = order_free_loss(dataset_of(text, text, text), "test", 10);
  EXPECT_NEAR(loss.bag_of_context, 0.69314718, 0.01);
}

}  // namespace
}  // namespace posenc
