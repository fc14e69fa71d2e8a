#include "eval/config.h"

#include <algorithm>

namespace posenc {
namespace {

/// Two cells of one kind could not be told apart, by the reports or by the gate.
template <class T>
void require_distinct(const std::vector<T>& values, const char* key, const Reader& r) {
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (std::find(values.begin(), value, *value) != value)
      r.at(key).problem(std::to_string(value - values.begin()), "is given twice");
  }
}

}  // namespace

template <>
const Schema<EvalConfig>& schema<EvalConfig>() {
  static const Schema<EvalConfig> table =
      Schema<EvalConfig>("evaluation")
          .field("lengths", &EvalConfig::lengths, "input positions fed to the model")
          .range(1, 1 << 24)
          .field("protocols", &EvalConfig::protocols, "how targets and contexts are chosen")
          .choices({"fixed_target", "nonoverlapping", "sliding"})
          .field("split", &EvalConfig::split, "part of the corpus")
          .choices({"test", "valid", "train"})
          .field("windows", &EvalConfig::windows, "fixed_target: windows of the longest length")
          .range(1, 1 << 20)
          .field("targets", &EvalConfig::targets,
                 "fixed_target: last targets of a window that are scored at every length; null: half the shorter of training "
                 "length and shortest length")
          .range(1, 1 << 20)
          .field("stride", &EvalConfig::stride, "sliding: new targets per window; null: half the window")
          .range(1, 1 << 24)
          .field("tokens", &EvalConfig::tokens,
                 "nonoverlapping and sliding: tokens of the split that are scored, from its start; 0: all")
          .at_least(0)
          .field("by_position", &EvalConfig::by_position, "windows of the longest length for the loss by position; 0: none")
          .range(0, 1 << 20)
          .field("state", &EvalConfig::state,
                 "of a recurrent or convolutional model at the start of a window: reset, or carry it over from the one before "
                 "(nonoverlapping)")
          .choices({"reset", "carry"})
          .field("extensions", &EvalConfig::extensions, "rows besides the scheme as trained")
          .check([](const EvalConfig& e, const Reader& r) {
            std::vector<std::string> labels;
            for (const ExtensionConfig& extension : e.extensions) labels.push_back(extension.label());
            require_distinct(e.lengths, "lengths", r);
            require_distinct(e.protocols, "protocols", r);
            require_distinct(labels, "extensions", r);
            if (e.tokens == 1) r.problem("tokens", "1 token has no target; 0 means all, anything else at least 2");
          });
  return table;
}

void EvalConfig::resolve(std::int64_t train_length) {
  const std::int64_t shortest = *std::min_element(lengths.begin(), lengths.end());
  if (!targets) targets = std::max<std::int64_t>(1, std::min(train_length, shortest) / 2);
}

}  // namespace posenc
