#pragma once
// From runs on tasks to numbers: one row per (task, training lengths, split, protocol hash), scheme, extension, length and depth,
// taken over the seeds, as rows.h does for text.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/results.h"
#include "core/statistics.h"
#include "report/rows.h"

namespace posenc {

/// What the numbers of one table share.
struct AccuracySetting {
  std::string task;
  std::vector<std::int64_t> train_lengths;
  std::string split, protocol_hash;
  auto operator<=>(const AccuracySetting&) const = default;
};

struct AccuracyRow {
  AccuracySetting setting;
  std::string scheme, label, extension;
  std::int64_t length = 0;
  std::optional<double> depth;       ///< absent: all depths together, or a task without
  std::int64_t examples = 0;         ///< of one seed
  int n = 0;                         ///< seeds with a number
  Quantity exact_match;              ///< error: half width of the 95 % t interval over the seeds, when there are several
  std::optional<Interval> interval;  ///< 95 % Wilson interval over the examples, when there is one seed
  Quantity token_accuracy;           ///< error: standard error over examples for one seed, half width for several
  std::string status, reason;        ///< as in ReportRow
};

/// By setting, then label and extension (as they come in), then length, then depth, all depths together first. A setting's rows ×
/// lengths × depths are complete.
std::vector<AccuracyRow> accuracy_rows(const std::vector<Results>& runs);

}  // namespace posenc
