// Reversing in three forms: the symbols, the symbols and then the reverse once more (after Kazemnejad et al. 2023,
// arXiv:2305.19466, whose tasks come singly and doubled), and the order of words whose letters stay as they are.
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct ReverseParameters {
  std::string form = "symbols";
  std::int64_t symbols = 26;
};

class Reverse : public Task {
 public:
  explicit Reverse(const ReverseParameters& p)
      : form_(p.form), symbols_(std::string(kLetters).substr(0, static_cast<std::size_t>(p.symbols))) {}
  std::string alphabet() const override { return form_ == "words" ? symbols_ + " " : symbols_; }
  std::int64_t longest(std::int64_t length) const override {
    return form_ == "symbols" ? 2 * length : form_ == "twice" ? 3 * length : 2 * ((kWordLength + 1) * length - 1);
  }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    if (form_ == "words") return draw_words(length, rng);
    const std::string prompt = draw_string(symbols_, length, rng);
    const std::string reversed(prompt.rbegin(), prompt.rend());
    return {prompt, form_ == "twice" ? reversed + reversed : reversed};
  }

 private:
  static constexpr std::int64_t kWordLength = 3;  ///< at most

  Example draw_words(std::int64_t length, Rng& rng) const {
    Example example;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::string word = draw_string(symbols_, 1 + static_cast<std::int64_t>(rng.below(kWordLength)), rng);
      example.prompt += (i == 0 ? "" : " ") + word;
      example.answer = word + (i == 0 ? "" : " ") + example.answer;
    }
    return example;
  }

  std::string form_, symbols_;
};

}  // namespace

template <>
const Schema<ReverseParameters>& schema<ReverseParameters>() {
  static const Schema<ReverseParameters> table =
      Schema<ReverseParameters>("reverse")
          .field(
              "form", &ReverseParameters::form,
              "symbols: last symbol first; twice: that written twice; words: last word first, each of 1 to 3 letters as it was")
          .choices({"symbols", "twice", "words"})
          .field("symbols", &ReverseParameters::symbols, "size of the alphabet")
          .range(2, 52);
  return table;
}

TaskInfo reverse_task() {
  TaskInfo info;
  info.name = "reverse";
  info.aliases = {"reverse_string"};
  info.title = "say it backwards";
  info.paper = "Kazemnejad et al. 2023, arXiv:2305.19466; Delétang et al. 2023, arXiv:2207.02098";
  info.length = "symbols or words to reverse";
  return task_info<ReverseParameters, Reverse>(std::move(info));
}

}  // namespace posenc
