#pragma once
// A rule that makes `posenc compare` fail, as `--fail-on` takes it: METRIC[@WHERE]… > [+|-]AMOUNT[%]
//
//   ppl>+2%           perplexity rose by more than 2 % in any cell
//   nll>+0.01         loss rose by more than 0.01 nats
//   ppl@512>+2%       only at length 512; WHERE may also be a protocol or a scheme: ppl@512@sliding@rope>+2%
//   ppl@2048>30       the candidate's perplexity is above 30, whatever the baseline has
//   nll>-0.05         loss did not fall by at least 0.05 nats
//
//   error@40>+5%      the share of wrong answers to a task, by length 40, rose by more than 5 % of what it was
//   error>+0.05       or by more than 0.05
//
// Metrics: ppl, nll, bits_per_byte (or bpb); error of tasks.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/results.h"

namespace posenc {

enum class GateMetric { kNll, kPerplexity, kBitsPerByte, kError };

struct Gate {
  std::string text;  ///< as written
  GateMetric metric = GateMetric::kPerplexity;
  std::optional<std::int64_t> length;
  std::string protocol, scheme;  ///< "" matches all
  bool change = false;           ///< a sign was given: the limit is on candidate − baseline, else on the candidate
  bool relative = false;         ///< % was given
  double amount = 0;             ///< limit on the metric, or 0.02 for 2 %
};

/// ConfigError with an example when `text` is no gate.
Gate parse_gate(const std::string& text);

/// The gates in force when the user gives none: ppl>+2% and nll>+0.02, which mean the same of a file whose ppl is exp(nll) and
/// catch one where it is not.
std::vector<Gate> default_gates();

/// Those for what the runs are on: error>+0.05 for tasks, and the above for text.
std::vector<Gate> default_gates(const std::vector<Results>& baseline, const std::vector<Results>& candidate);

/// As gate_applies, gate_fails and gate_gains below, for right answers: the metric is the share of wrong ones.
bool gate_applies(const Gate& gate, const std::string& scheme, const Accuracy& accuracy);
bool gate_fails(const Gate& gate, const Accuracy* baseline, const Accuracy& candidate);
bool gate_gains(const Gate& gate, const Accuracy& baseline, const Accuracy& candidate);

/// Whether the gate speaks about this cell at all: scheme, length, protocol, and a metric the cell has. The cell is ok.
bool gate_applies(const Gate& gate, const std::string& scheme, const Cell& cell);

/// Whether the candidate breaks the gate. Both cells are ok and the gate applies; `baseline` may be null when the gate is no
/// change.
bool gate_fails(const Gate& gate, const Cell* baseline, const Cell& candidate);

/// Whether the candidate lies below the baseline by more than a (positive) change gate lets it lie above.
bool gate_gains(const Gate& gate, const Cell& baseline, const Cell& candidate);

}  // namespace posenc
