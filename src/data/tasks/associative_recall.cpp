// Key-value retrieval: pairs of a key of two letters and a digit, then one of the keys. Ba et al. 2016 (arXiv:1610.06258), Arora
// et al. 2023 (arXiv:2312.04927).
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct RecallParameters {};

class AssociativeRecall : public Task {
 public:
  explicit AssociativeRecall(const RecallParameters&) {}
  std::string alphabet() const override { return std::string(kLetters).substr(0, 26) + kDigits + "?"; }
  std::string misfit(std::int64_t length) const override {
    const std::string most = at_most_misfit(length, kTwoLetterNames, "there are no more keys");
    return most.empty() ? Task::misfit(length) : most;
  }
  std::int64_t longest(std::int64_t length) const override { return 3 * length + 3 + 1; }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const std::vector<std::string> keys = draw_names(length, rng);
    const std::string values = draw_string(kDigits, length, rng);
    std::string prompt;
    for (std::size_t i = 0; i < keys.size(); ++i) prompt += keys[i] + values[i];
    const std::uint64_t asked = rng.below(keys.size());
    return {prompt + "?" + keys[asked], {values[asked]}};
  }
};

}  // namespace

template <>
const Schema<RecallParameters>& schema<RecallParameters>() {
  static const Schema<RecallParameters> table("no parameters");
  return table;
}

TaskInfo associative_recall_task() {
  TaskInfo info;
  info.name = "associative_recall";
  info.aliases = {"key_value", "kv_retrieval"};
  info.title = "the value that stood beside a key";
  info.paper = "Ba et al. 2016, arXiv:1610.06258; Arora et al. 2023, arXiv:2312.04927";
  info.length = "pairs of key and value";
  return task_info<RecallParameters, AssociativeRecall>(std::move(info));
}

}  // namespace posenc
