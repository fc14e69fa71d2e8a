// The sum of digits, modulo. Kazemnejad et al. 2023 (arXiv:2305.19466).
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct SummationParameters {
  std::int64_t modulus = 10;
};

class Summation : public Task {
 public:
  explicit Summation(const SummationParameters& p)
      : digits_(std::string(kDigits).substr(0, static_cast<std::size_t>(p.modulus))) {}
  std::string alphabet() const override { return digits_; }
  std::int64_t longest(std::int64_t length) const override { return length + 1; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const std::string prompt = draw_string(digits_, length, rng);
    std::size_t sum = 0;
    for (const char digit : prompt) sum += static_cast<std::size_t>(digit - '0');
    return {prompt, {digits_[sum % digits_.size()]}};
  }

 private:
  std::string digits_;
};

}  // namespace

template <>
const Schema<SummationParameters>& schema<SummationParameters>() {
  static const Schema<SummationParameters> table =
      Schema<SummationParameters>("summation")
          .field("modulus", &SummationParameters::modulus, "digits are below it, and so is the sum")
          .range(2, 10);
  return table;
}

TaskInfo summation_task() {
  TaskInfo info;
  info.name = "summation";
  info.title = "the sum of digits modulo ten";
  info.paper = "Kazemnejad et al. 2023, arXiv:2305.19466";
  info.length = "digits to add up";
  return task_info<SummationParameters, Summation>(std::move(info));
}

}  // namespace posenc
