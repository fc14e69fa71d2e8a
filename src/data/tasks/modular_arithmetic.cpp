// The value of an expression with + - *, modulo, products first. The simple form of Delétang et al. 2023 (arXiv:2207.02098).
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct ModularArithmeticParameters {
  std::int64_t modulus = 5;
  std::string operators = "+-*";
};

class ModularArithmetic : public Task {
 public:
  explicit ModularArithmetic(const ModularArithmeticParameters& p) : modulus_(p.modulus), operators_(p.operators) {}
  std::string alphabet() const override { return digits() + operators_; }
  std::int64_t longest(std::int64_t length) const override { return 2 * length; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    std::string prompt(1, draw_char(digits(), rng));
    std::int64_t sum = 0, product = prompt[0] - '0';  // the last summand is still growing
    for (std::int64_t i = 1; i < length; ++i) {
      const char op = draw_char(operators_, rng), digit = draw_char(digits(), rng);
      prompt += {op, digit};
      const std::int64_t value = digit - '0';
      if (op != '*') sum += product;
      product = op == '*' ? product * value : op == '-' ? -value : value;
      sum %= modulus_, product %= modulus_;
    }
    return {prompt, std::to_string(((sum + product) % modulus_ + modulus_) % modulus_)};
  }

 private:
  std::string digits() const { return std::string(kDigits).substr(0, static_cast<std::size_t>(modulus_)); }

  std::int64_t modulus_;
  std::string operators_;
};

}  // namespace

template <>
const Schema<ModularArithmeticParameters>& schema<ModularArithmeticParameters>() {
  static const Schema<ModularArithmeticParameters> table =
      Schema<ModularArithmeticParameters>("modular arithmetic")
          .field("modulus", &ModularArithmeticParameters::modulus, "numbers are below it")
          .range(2, 10)
          .field("operators", &ModularArithmeticParameters::operators, "which there are, each as likely")
          .choices({"+-*", "+-", "+*", "+"});
  return table;
}

TaskInfo modular_arithmetic_task() {
  TaskInfo info;
  info.name = "modular_arithmetic";
  info.title = "the value of an expression modulo five";
  info.paper = "Delétang et al. 2023, arXiv:2207.02098";
  info.length = "numbers in the expression";
  return task_info<ModularArithmeticParameters, ModularArithmetic>(std::move(info));
}

}  // namespace posenc
