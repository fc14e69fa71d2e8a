#include "data/task_data.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace posenc {
namespace {

constexpr std::uint64_t kTenths = 10;
constexpr int kTries = 10'000;  ///< draws before a part counts as empty

/// More draws than this for each example that a test wants, and a length has no more.
constexpr std::int64_t kDrawsPerExample = 50;

}  // namespace

TaskData::TaskData(const DataConfig& config)
    : config_(config),
      task_(make_task(*config.task)),
      tokenizer_(make_symbol_tokenizer(task_->alphabet())),
      trained_(trained_lengths(config)) {
  task_->prepare();
}

std::string TaskData::part_of(const Example& example, std::int64_t length) const {
  const bool whole = example.source.empty();
  const std::uint64_t tenth = derive_seed(0, whole ? example.prompt : example.source) % kTenths;
  if (tenth == 1) return "valid";
  const bool unseen = whole && !std::binary_search(trained_.begin(), trained_.end(), length);
  return tenth == 0 || unseen ? "test" : "train";
}

TaskSequence TaskData::encode(const Example& example) const {
  TaskSequence sequence;
  const auto append = [&](const std::string& text) {
    const std::vector<std::int32_t> tokens = tokenizer_->encode(text, config_.task->name);
    sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  };
  sequence.tokens.push_back(kStart);
  append(example.prompt);
  sequence.tokens.push_back(kAnswer);
  append(example.answer);
  sequence.tokens.push_back(kEnd);
  sequence.answer = static_cast<std::int64_t>(example.answer.size());
  return sequence;
}

Example TaskData::training_example(const std::string& part, std::uint64_t seed) const {
  Rng rng(seed);
  for (int i = 0; i < kTries; ++i) {
    const std::int64_t length = trained_[rng.below(trained_.size())];
    const double depth = task_->has_depth() ? rng.uniform() : 0;
    Example example = task_->draw(length, depth, rng);
    if (part_of(example, length) == part) return example;
  }
  throw ConfigError("the lengths " + std::to_string(trained_.front()) + " to " + std::to_string(trained_.back()) + " of " +
                    config_.task->label() + " have no question for " + part + ": give data.train_lengths more room");
}

std::vector<TaskSequence> TaskData::sequences(const std::string& part, std::uint64_t seed, std::int64_t first,
                                              std::int64_t count) const {
  std::vector<TaskSequence> drawn;
  for (std::int64_t i = first; i < first + count; ++i)
    drawn.push_back(encode(training_example(part, derive_seed(seed, "task/" + part, static_cast<std::uint64_t>(i)))));
  return drawn;
}

std::vector<Example> TaskData::examples(const std::string& part, std::int64_t length, double depth) const {
  const auto wanted = static_cast<std::size_t>(*config_.examples);
  const std::uint64_t seed = derive_seed(0, "task/examples/" + part, static_cast<std::uint64_t>(length));
  std::vector<Example> found;
  std::set<std::string> seen;
  const auto draws = static_cast<std::uint64_t>(*config_.examples * kDrawsPerExample + kTries);
  for (std::uint64_t i = 0; i < draws && found.size() < wanted; ++i) {
    Rng rng(derive_seed(seed, "example", i));
    Example example = task_->draw(length, depth, rng);
    if (part_of(example, length) == part && seen.insert(example.prompt).second) found.push_back(std::move(example));
  }
  return found;
}

}  // namespace posenc
