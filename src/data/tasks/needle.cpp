// Needles with keys: several numbers hidden in filler, each with a word; one of them is asked for. The multi-key retrieval of Hsieh
// et al. 2024 (RULER, arXiv:2404.06654).
#include <array>

#include "data/tasks/draw.h"
#include "data/tasks/filler.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

constexpr std::array kKeys = {"apple", "birch", "cabin", "daisy", "eagle", "flame", "glove", "heron",
                              "inlet", "jelly", "knife", "lemon", "mouse", "nurse", "olive", "pearl"};  // of one size

struct NeedleParameters {
  std::int64_t needles = 4, digits = 3;
};

class Needle : public Task {
 public:
  explicit Needle(const NeedleParameters& p) : needles_(p.needles), digits_(p.digits) {}
  std::string alphabet() const override { return std::string(kFillerAlphabet) + kDigits + "?"; }
  std::string misfit(std::int64_t length) const override {
    const std::string value(static_cast<std::size_t>(digits_), '0');
    const auto needle = static_cast<std::int64_t>(statement(kKeys[0], value).size());
    return at_least_misfit(length, needles_ * needle + static_cast<std::int64_t>(question(kKeys[0]).size()));
  }
  std::int64_t longest(std::int64_t length) const override { return length + digits_; }
  bool has_depth() const override { return true; }

  Example draw(std::int64_t length, double depth, Rng& rng) const override {
    const Permutation keys(kKeys.size(), rng.next());
    std::vector<std::pair<double, std::string>> hidden;  // the first is asked for
    std::string answer;
    for (std::int64_t i = 0; i < needles_; ++i) {
      const std::string value = draw_string(kDigits, digits_, rng);
      if (i == 0) answer = value;
      hidden.emplace_back(i == 0 ? depth : rng.uniform(), statement(kKeys[keys(static_cast<std::uint64_t>(i))], value));
    }
    const std::string asked = question(kKeys[keys(0)]);
    return {hide_in_filler(hidden, length - static_cast<std::int64_t>(asked.size()), rng) + asked, answer};
  }

 private:
  static std::string statement(const std::string& key, const std::string& value) { return key + " has number " + value + ". "; }
  static std::string question(const std::string& key) { return "which number has " + key + "?"; }

  std::int64_t needles_, digits_;
};

}  // namespace

template <>
const Schema<NeedleParameters>& schema<NeedleParameters>() {
  static const Schema<NeedleParameters> table = Schema<NeedleParameters>("needle")
                                                    .field("needles", &NeedleParameters::needles, "numbers that are hidden")
                                                    .range(1, 16)
                                                    .field("digits", &NeedleParameters::digits, "of each number")
                                                    .range(1, 20);
  return table;
}

TaskInfo needle_task() {
  TaskInfo info;
  info.name = "needle";
  info.aliases = {"multi_key_needle", "niah"};
  info.title = "one of several numbers hidden in filler, by its key";
  info.paper = "Hsieh et al. 2024, arXiv:2404.06654";
  info.length = "characters of the prompt";
  return task_info<NeedleParameters, Needle>(std::move(info));
}

}  // namespace posenc
