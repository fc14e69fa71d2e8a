// Counting: a run of operations on a few variables, then the value of one of them. "a" adds one to a, "A" sets it to 0, "." does
// nothing. Golovneva et al. 2024 (arXiv:2405.18719, section 5.2) in one character per operation.
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct CountingParameters {
  std::int64_t variables = 3;
  double pass = 0.4, reset = 0.1;
};

class Counting : public Task {
 public:
  explicit Counting(const CountingParameters& p) : parameters_(p) {}
  std::string alphabet() const override { return names() + capitals() + ".?" + kDigits; }
  std::int64_t longest(std::int64_t length) const override {
    return length + 2 + static_cast<std::int64_t>(std::to_string(length).size());
  }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    std::vector<std::int64_t> counts(names().size());
    std::string prompt;
    for (std::int64_t i = 0; i < length; ++i) {
      const double kind = rng.uniform();
      const std::uint64_t variable = rng.below(counts.size());
      if (kind < parameters_.pass) {
        prompt += '.';
      } else if (kind < parameters_.pass + parameters_.reset) {
        prompt += capitals()[variable];
        counts[variable] = 0;
      } else {
        prompt += names()[variable];
        ++counts[variable];
      }
    }
    const std::uint64_t asked = rng.below(counts.size());
    return {prompt + "?" + names()[asked], std::to_string(counts[asked])};
  }

 private:
  std::string names() const { return std::string(kLetters).substr(0, static_cast<std::size_t>(parameters_.variables)); }
  std::string capitals() const { return std::string(kLetters).substr(26, static_cast<std::size_t>(parameters_.variables)); }

  CountingParameters parameters_;
};

}  // namespace

template <>
const Schema<CountingParameters>& schema<CountingParameters>() {
  static const Schema<CountingParameters> table =
      Schema<CountingParameters>("counting")
          .field("variables", &CountingParameters::variables, "how many there are")
          .range(1, 26)
          .field("pass", &CountingParameters::pass, "share of operations that do nothing")
          .range(0, 1)
          .field("reset", &CountingParameters::reset, "share of operations that set a variable to 0; the others add one")
          .range(0, 1)
          .check([](const CountingParameters& p, const Reader& r) {
            if (p.pass + p.reset > 1) r.problem("reset", "pass and reset are more than 1 together");
          });
  return table;
}

TaskInfo counting_task() {
  TaskInfo info;
  info.name = "counting";
  info.title = "what a counter shows after a run of operations";
  info.paper = "Golovneva et al. 2024, arXiv:2405.18719";
  info.length = "operations";
  return task_info<CountingParameters, Counting>(std::move(info));
}

}  // namespace posenc
