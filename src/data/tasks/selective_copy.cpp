// Selective copy: symbols scattered among blanks, to be copied without the blanks. Gu and Dao 2023 (arXiv:2312.00752); with as
// many blanks as symbols on average it is the task of Golovneva et al. 2024 (arXiv:2405.18719).
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

constexpr char kBlank = '.';

struct SelectiveCopyParameters {
  double blanks = 0.5;
  std::int64_t symbols = 16;
};

class SelectiveCopy : public Task {
 public:
  explicit SelectiveCopy(const SelectiveCopyParameters& p)
      : blanks_(p.blanks), symbols_(std::string(kLetters).substr(0, static_cast<std::size_t>(p.symbols))) {}
  std::string alphabet() const override { return symbols_ + kBlank; }
  std::int64_t longest(std::int64_t length) const override { return 2 * length; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const auto kept = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(length)));  // one symbol at least
    Example example;
    for (std::int64_t i = 0; i < length; ++i) {
      const bool blank = i != kept && rng.uniform() < blanks_;
      const char symbol = blank ? kBlank : draw_char(symbols_, rng);
      example.prompt += symbol;
      if (!blank) example.answer += symbol;
    }
    return example;
  }

 private:
  double blanks_;
  std::string symbols_;
};

}  // namespace

template <>
const Schema<SelectiveCopyParameters>& schema<SelectiveCopyParameters>() {
  static const Schema<SelectiveCopyParameters> table =
      Schema<SelectiveCopyParameters>("selective copy")
          .field("blanks", &SelectiveCopyParameters::blanks, "share of blanks; one symbol there is always")
          .range(0, 1)
          .field("symbols", &SelectiveCopyParameters::symbols, "size of the alphabet without the blank")
          .range(2, 52);
  return table;
}

TaskInfo selective_copy_task() {
  TaskInfo info;
  info.name = "selective_copy";
  info.title = "repeat all but the blanks";
  info.paper = "Gu and Dao 2023, arXiv:2312.00752; Golovneva et al. 2024, arXiv:2405.18719";
  info.length = "symbols and blanks";
  return task_info<SelectiveCopyParameters, SelectiveCopy>(std::move(info));
}

}  // namespace posenc
