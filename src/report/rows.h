#pragma once
// From runs to numbers: one row per (train length, protocol, scheme, extension, length), taken over the seeds. What every report
// format shows comes from here.
//
// Runs are never averaged unless they differ in seed only as far as can be told: numbers under different protocol hashes, units
// or splits stay apart, and when several runs of a scheme share a seed (two bases of rope, say) each is a row of its own,
// labelled by its run's name.

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/results.h"

namespace posenc {

/// What the numbers of one table share.
struct Setting {
  std::int64_t train_length = 0;
  std::string protocol, unit, split, protocol_hash;
  auto operator<=>(const Setting&) const = default;
};

/// `error` is the standard error over the windows when there is one seed, the half width of the 95 % t interval over the seeds
/// when there are more.
struct Quantity {
  std::optional<double> mean, error;
};

struct ReportRow {
  Setting setting;
  std::string scheme, label, extension;  ///< label: the scheme, with the run's name where the scheme alone is ambiguous
  std::int64_t length = 0, window = 0, stride = 0, targets = 0;
  int n = 0;  ///< seeds with a number
  Quantity nll, ppl, bits_per_byte;
  std::string status;  ///< ok | partial (some seeds have no number) | refused | diverged | failed | unfinished | not run
  std::string reason;  ///< of every seed without a number
};

/// The label of each run, in order.
std::vector<std::string> row_labels(const std::vector<Results>& runs);

/// Ordered by train length and setting, then label and extension (as they come in), then length. A setting's rows × lengths are
/// complete: what was not evaluated is a row with status "not run". A run that left no cells appears under every setting of its
/// train length, or, where there is none, as one last row with an empty protocol and length 0.
std::vector<ReportRow> report_rows(const std::vector<Results>& runs);

}  // namespace posenc
