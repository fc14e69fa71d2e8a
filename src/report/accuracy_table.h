#pragma once
// Right answers as people read them: by scheme and length, and by depth and length for a task that hides something.

#include <vector>

#include "core/results.h"
#include "report/table.h"

namespace posenc {

/// For every task (with its training lengths) a table of exact match and one of token accuracy, in per cent; where there are depths,
/// exact match by depth × length for every scheme and extension.
std::vector<Table> accuracy_tables(const std::vector<Results>& runs);

/// One run: extension (and depth) down, lengths across.
Table accuracy_run_table(const Results& run);

/// One line per row of accuracy_rows, with every digit.
Table accuracy_csv_table(const std::vector<Results>& runs);

/// The same as JSON: a list of objects with the csv table's keys.
Json accuracy_json(const std::vector<Results>& runs);

}  // namespace posenc
