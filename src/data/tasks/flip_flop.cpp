// A memory of one bit: "w1i0i1r" writes 1, ignores two bits and reads. Liu et al. 2023 (arXiv:2306.00946); asked for at the last
// read only, as Golovneva et al. 2024 (arXiv:2405.18719) do.
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct FlipFlopParameters {
  double write = 0.1;
};

class FlipFlop : public Task {
 public:
  explicit FlipFlop(const FlipFlopParameters& p) : write_(p.write) {}
  std::string alphabet() const override { return "wir01"; }
  std::string misfit(std::int64_t length) const override { return at_least_misfit(length, 2); }
  std::int64_t longest(std::int64_t length) const override { return 2 * length; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    std::string prompt;
    char memory = '0';
    for (std::int64_t i = 0; i + 1 < length; ++i) {
      const bool writes = i == 0 || rng.uniform() < write_;
      const char bit = draw_char("01", rng);
      prompt += {writes ? 'w' : 'i', bit};
      if (writes) memory = bit;
    }
    return {prompt + 'r', {memory}};
  }

 private:
  double write_;
};

}  // namespace

template <>
const Schema<FlipFlopParameters>& schema<FlipFlopParameters>() {
  static const Schema<FlipFlopParameters> table =
      Schema<FlipFlopParameters>("flip-flop")
          .field("write", &FlipFlopParameters::write, "share of instructions after the first that write; the others are ignored")
          .range(0, 1);
  return table;
}

TaskInfo flip_flop_task() {
  TaskInfo info;
  info.name = "flip_flop";
  info.title = "the bit written last";
  info.paper = "Liu et al. 2023, arXiv:2306.00946; Golovneva et al. 2024, arXiv:2405.18719";
  info.length = "instructions, the first write and the last read included";
  return task_info<FlipFlopParameters, FlipFlop>(std::move(info));
}

}  // namespace posenc
