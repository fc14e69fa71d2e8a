// Whether the number of ones is odd. Delétang et al. 2023 (arXiv:2207.02098), Kazemnejad et al. 2023 (arXiv:2305.19466).
#include <algorithm>

#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct ParityParameters {};

class Parity : public Task {
 public:
  explicit Parity(const ParityParameters&) {}
  std::string alphabet() const override { return "01"; }
  std::int64_t longest(std::int64_t length) const override { return length + 1; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const std::string bits = draw_string(alphabet(), length, rng);
    return {bits, std::ranges::count(bits, '1') % 2 == 1 ? "1" : "0"};
  }
};

}  // namespace

template <>
const Schema<ParityParameters>& schema<ParityParameters>() {
  static const Schema<ParityParameters> table("no parameters");
  return table;
}

TaskInfo parity_task() {
  TaskInfo info;
  info.name = "parity";
  info.aliases = {"parity_check"};
  info.title = "whether the ones are odd in number";
  info.paper = "Delétang et al. 2023, arXiv:2207.02098; Kazemnejad et al. 2023, arXiv:2305.19466";
  info.length = "bits";
  return task_info<ParityParameters, Parity>(std::move(info));
}

}  // namespace posenc
