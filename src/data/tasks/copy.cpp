// Copying in five forms, after Kazemnejad et al. 2023 (arXiv:2305.19466, appendix): one symbol repeated, the same answered in
// another symbol, random symbols, and the first and third written twice.
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct CopyParameters {
  std::string form = "random";
  std::int64_t symbols = 26;
};

class Copy : public Task {
 public:
  explicit Copy(const CopyParameters& p)
      : form_(p.form), symbols_(std::string(kLetters).substr(0, static_cast<std::size_t>(p.symbols))) {}
  std::string alphabet() const override { return symbols_; }
  std::int64_t longest(std::int64_t length) const override { return twice() ? 3 * length : 2 * length; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const bool one_symbol = form_ == "same" || form_ == "replaced" || form_ == "same_twice";
    const std::string prompt =
        one_symbol ? std::string(static_cast<std::size_t>(length), draw_char(symbols_, rng)) : draw_string(symbols_, length, rng);
    if (form_ == "replaced") return {prompt, std::string(prompt.size(), successor(prompt[0]))};
    return {prompt, twice() ? prompt + prompt : prompt};
  }

 private:
  bool twice() const { return form_ == "same_twice" || form_ == "random_twice"; }
  char successor(char symbol) const { return symbols_[(symbols_.find(symbol) + 1) % symbols_.size()]; }

  std::string form_, symbols_;
};

}  // namespace

template <>
const Schema<CopyParameters>& schema<CopyParameters>() {
  static const Schema<CopyParameters> table =
      Schema<CopyParameters>("copy")
          .field("form", &CopyParameters::form,
                 "random: random symbols; same: one symbol repeated; replaced: one symbol repeated, answered in the next of the "
                 "alphabet; …_twice: the answer written twice")
          .choices({"random", "same", "replaced", "random_twice", "same_twice"})
          .field("symbols", &CopyParameters::symbols, "size of the alphabet")
          .range(2, 52);
  return table;
}

TaskInfo copy_task() {
  TaskInfo info;
  info.name = "copy";
  info.aliases = {"duplicate_string"};
  info.title = "repeat what was said";
  info.paper = "Kazemnejad et al. 2023, arXiv:2305.19466; Delétang et al. 2023, arXiv:2207.02098";
  info.length = "symbols to copy";
  return task_info<CopyParameters, Copy>(std::move(info));
}

}  // namespace posenc
