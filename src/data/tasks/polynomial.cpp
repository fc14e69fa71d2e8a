// The value of a polynomial, modulo: "3:2x1+5x0" is 2·3 + 5. Kazemnejad et al. 2023 (arXiv:2305.19466).
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct PolynomialParameters {
  std::int64_t modulus = 10, degree = 3;
};

class Polynomial : public Task {
 public:
  explicit Polynomial(const PolynomialParameters& p)
      : modulus_(static_cast<std::uint64_t>(p.modulus)), degree_(static_cast<std::uint64_t>(p.degree)) {}
  std::string alphabet() const override { return std::string(kDigits) + ":x+"; }
  std::int64_t longest(std::int64_t length) const override { return 2 + 4 * length - 1 + 1; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const std::uint64_t x = rng.below(modulus_);
    std::string prompt = std::to_string(x) + ":";
    std::uint64_t value = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::uint64_t factor = rng.below(modulus_), exponent = rng.below(degree_ + 1);
      prompt += (i == 0 ? "" : "+") + std::to_string(factor) + "x" + std::to_string(exponent);
      std::uint64_t term = factor;
      for (std::uint64_t e = 0; e < exponent; ++e) term = term * x % modulus_;
      value = (value + term) % modulus_;
    }
    return {prompt, std::to_string(value)};
  }

 private:
  std::uint64_t modulus_, degree_;
};

}  // namespace

template <>
const Schema<PolynomialParameters>& schema<PolynomialParameters>() {
  static const Schema<PolynomialParameters> table =
      Schema<PolynomialParameters>("polynomial")
          .field("modulus", &PolynomialParameters::modulus, "every number is below it")
          .range(2, 10)
          .field("degree", &PolynomialParameters::degree, "the largest exponent")
          .range(0, 9);
  return table;
}

TaskInfo polynomial_task() {
  TaskInfo info;
  info.name = "polynomial";
  info.title = "the value of a polynomial modulo ten";
  info.paper = "Kazemnejad et al. 2023, arXiv:2305.19466";
  info.length = "terms";
  return task_info<PolynomialParameters, Polynomial>(std::move(info));
}

}  // namespace posenc
