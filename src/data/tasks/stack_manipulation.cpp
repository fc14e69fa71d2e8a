// A stack and a run of pushes and pops: what lies on it afterwards, from the top? "ab|-b" starts with b on a, pops, pushes b: the
// answer is "ba." A pop of an empty stack does nothing. Delétang et al. 2023 (arXiv:2207.02098); the dot ends every answer, so
// that an empty stack has one.
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct StackParameters {};

class StackManipulation : public Task {
 public:
  explicit StackManipulation(const StackParameters&) {}
  std::string alphabet() const override { return "ab-|."; }
  std::int64_t longest(std::int64_t length) const override { return length + 1 + length + 1; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    std::string stack = draw_string("ab", (length + 1) / 2, rng);
    const std::string actions = draw_string("ab-", length / 2, rng);
    Example example{stack + "|" + actions, ""};
    for (const char action : actions) {
      if (action != '-') stack += action;
      else if (!stack.empty()) stack.pop_back();
    }
    example.answer = std::string(stack.rbegin(), stack.rend()) + ".";
    return example;
  }
};

}  // namespace

template <>
const Schema<StackParameters>& schema<StackParameters>() {
  static const Schema<StackParameters> table("no parameters");
  return table;
}

TaskInfo stack_manipulation_task() {
  TaskInfo info;
  info.name = "stack_manipulation";
  info.aliases = {"stack"};
  info.title = "what lies on a stack after pushes and pops";
  info.paper = "Delétang et al. 2023, arXiv:2207.02098";
  info.length = "symbols on the stack and actions, half of each";
  return task_info<StackParameters, StackManipulation>(std::move(info));
}

}  // namespace posenc
