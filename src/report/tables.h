#pragma once
// The tables people read, made from report rows: perplexity (and bits per byte) by evaluation length, loss by position, and the
// runs that left no numbers. Below each stands what its numbers mean: protocol, unit, split, targets, windows, the meaning of ±,
// and why a cell has none.

#include <vector>

#include "core/results.h"
#include "report/table.h"

namespace posenc {

/// For every train length and protocol a table of perplexity and, for bytes, one of bits per byte; then loss by position at the
/// longest length of each train length; right answers to tasks (accuracy_table.h); then the runs that are not ok.
std::vector<Table> report_tables(const std::vector<Results>& runs);

/// One run: protocol × extension down, lengths across; of a task, accuracy_run_table.
Table run_table(const Results& run);

}  // namespace posenc
