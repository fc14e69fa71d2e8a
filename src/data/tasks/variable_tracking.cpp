// Variable tracking: chains of assignments in turn, "ab=37,cd=52,ef=ab?37": which variables hold the value? The answer names them
// in the order of the prompt, "abef". Hsieh et al. 2024 (RULER, arXiv:2404.06654), without its filler.
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

constexpr std::uint64_t kValues = 100;  // of two digits

struct VariableTrackingParameters {
  std::int64_t chains = 2;
};

class VariableTracking : public Task {
 public:
  explicit VariableTracking(const VariableTrackingParameters& p) : chains_(p.chains) {}
  std::string alphabet() const override { return std::string(kLetters).substr(0, 26) + kDigits + "=,?"; }
  std::string misfit(std::int64_t length) const override {
    const std::string most = at_most_misfit(length, kTwoLetterNames, "there are no more names");
    return most.empty() ? at_least_misfit(length, chains_) : most;
  }
  std::int64_t longest(std::int64_t length) const override { return 6 * length - 1 + 3 + 2 * (length - chains_ + 1); }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const std::vector<std::string> names = draw_names(length, rng);
    const std::vector<std::size_t> chain_of = deal(length, rng);
    const Permutation values(kValues, rng.next());
    const std::size_t asked = rng.below(static_cast<std::uint64_t>(chains_));
    std::vector<std::string> last(static_cast<std::size_t>(chains_));  // variable of each chain
    Example example;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::size_t chain = chain_of[i];
      const std::string value = last[chain].empty() ? two_digits(values(chain)) : last[chain];
      example.prompt += (i == 0 ? "" : ",") + names[i] + "=" + value;
      if (chain == asked) example.answer += names[i];
      last[chain] = names[i];
    }
    example.prompt += "?" + two_digits(values(asked));
    return example;
  }

 private:
  /// The chain of each assignment; each chain has one at least.
  std::vector<std::size_t> deal(std::int64_t length, Rng& rng) const {
    const auto chains = static_cast<std::uint64_t>(chains_);
    std::vector<std::size_t> chain_of(static_cast<std::size_t>(length));
    for (std::size_t& chain : chain_of) chain = rng.below(chains);
    const Permutation places(chain_of.size(), rng.next());
    for (std::uint64_t chain = 0; chain < chains; ++chain) chain_of[places(chain)] = chain;
    return chain_of;
  }

  static std::string two_digits(std::uint64_t value) { return (value < 10 ? "0" : "") + std::to_string(value); }

  std::int64_t chains_;
};

}  // namespace

template <>
const Schema<VariableTrackingParameters>& schema<VariableTrackingParameters>() {
  static const Schema<VariableTrackingParameters> table =
      Schema<VariableTrackingParameters>("variable tracking")
          .field("chains", &VariableTrackingParameters::chains, "values, each handed on from variable to variable")
          .range(1, 100);
  return table;
}

TaskInfo variable_tracking_task() {
  TaskInfo info;
  info.name = "variable_tracking";
  info.title = "which variables hold a value";
  info.paper = "Hsieh et al. 2024, arXiv:2404.06654";
  info.length = "assignments";
  return task_info<VariableTrackingParameters, VariableTracking>(std::move(info));
}

}  // namespace posenc
