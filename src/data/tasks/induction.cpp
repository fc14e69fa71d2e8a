// Induction: random symbols, the last of which has stood there once before: what followed it then? Olsson et al. 2022
// (arXiv:2209.11895).
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct InductionParameters {
  std::int64_t symbols = 26;
};

class Induction : public Task {
 public:
  explicit Induction(const InductionParameters& p)
      : symbols_(std::string(kLetters).substr(0, static_cast<std::size_t>(p.symbols))) {}
  std::string alphabet() const override { return symbols_; }
  std::string misfit(std::int64_t length) const override { return at_least_misfit(length, 3); }
  std::int64_t longest(std::int64_t length) const override { return length + 1; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const std::size_t trigger = rng.below(symbols_.size());
    std::string others = symbols_;
    others.erase(trigger, 1);
    std::string prompt = draw_string(others, length, rng);
    const std::uint64_t before = rng.below(static_cast<std::uint64_t>(length - 2));  // never beside the last
    prompt[before] = prompt.back() = symbols_[trigger];
    return {prompt, {prompt[before + 1]}};
  }

 private:
  std::string symbols_;
};

}  // namespace

template <>
const Schema<InductionParameters>& schema<InductionParameters>() {
  static const Schema<InductionParameters> table = Schema<InductionParameters>("induction")
                                                       .field("symbols", &InductionParameters::symbols, "size of the alphabet")
                                                       .range(2, 52);
  return table;
}

TaskInfo induction_task() {
  TaskInfo info;
  info.name = "induction";
  info.aliases = {"induction_heads"};
  info.title = "what followed the last symbol before";
  info.paper = "Olsson et al. 2022, arXiv:2209.11895";
  info.length = "symbols";
  return task_info<InductionParameters, Induction>(std::move(info));
}

}  // namespace posenc
