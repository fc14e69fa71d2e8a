// Sorting symbols, or numbers of several digits, in ascending order. Kazemnejad et al. 2023 (arXiv:2305.19466); bucket sort of
// Delétang et al. 2023 (arXiv:2207.02098).
#include <algorithm>

#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct SortingParameters {
  std::string form = "symbols";
  std::int64_t symbols = 26, digits = 3;
};

class Sorting : public Task {
 public:
  explicit Sorting(const SortingParameters& p) : parameters_(p) {}
  std::string alphabet() const override { return numbers() ? std::string(kDigits) + ',' : letters(); }
  std::int64_t longest(std::int64_t length) const override {
    return numbers() ? 2 * ((parameters_.digits + 1) * length - 1) : 2 * length;
  }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    if (numbers()) return draw_numbers(length, rng);
    const std::string prompt = draw_string(letters(), length, rng);
    std::string sorted;
    for (const char letter : letters()) sorted.append(static_cast<std::size_t>(std::ranges::count(prompt, letter)), letter);
    return {prompt, sorted};
  }

 private:
  bool numbers() const { return parameters_.form == "numbers"; }
  std::string letters() const { return std::string(kLetters).substr(0, static_cast<std::size_t>(parameters_.symbols)); }

  static std::string list(const std::vector<std::uint64_t>& values) {
    std::string text;
    for (const std::uint64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
    return text;
  }

  Example draw_numbers(std::int64_t length, Rng& rng) const {
    std::vector<std::uint64_t> values;
    for (std::int64_t i = 0; i < length; ++i) {
      std::uint64_t bound = 10;  // as many numbers of one digit as of two or three
      for (std::uint64_t more = rng.below(static_cast<std::uint64_t>(parameters_.digits)); more > 0; --more) bound *= 10;
      values.push_back(rng.below(bound));
    }
    std::vector<std::uint64_t> sorted = values;
    std::ranges::sort(sorted);
    return {list(values), list(sorted)};
  }

  SortingParameters parameters_;
};

}  // namespace

template <>
const Schema<SortingParameters>& schema<SortingParameters>() {
  static const Schema<SortingParameters> table =
      Schema<SortingParameters>("sorting")
          .field("form", &SortingParameters::form, "symbols: letters; numbers: of several digits, with commas between them")
          .choices({"symbols", "numbers"})
          .field("symbols", &SortingParameters::symbols, "symbols: size of the alphabet")
          .range(2, 52)
          .field("digits", &SortingParameters::digits, "numbers: at most so many digits")
          .range(1, 9);
  return table;
}

TaskInfo sorting_task() {
  TaskInfo info;
  info.name = "sorting";
  info.aliases = {"sort", "bucket_sort"};
  info.title = "put in ascending order";
  info.paper = "Kazemnejad et al. 2023, arXiv:2305.19466; Delétang et al. 2023, arXiv:2207.02098";
  info.length = "symbols or numbers to sort";
  return task_info<SortingParameters, Sorting>(std::move(info));
}

}  // namespace posenc
