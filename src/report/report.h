#pragma once
// The report over one or many runs, from results files only.
//
//   format_report(load_results("runs/sweep"), "md")
//
// text and md hold the tables of report/tables.h. csv has one line per row of report/rows.h, or of report/accuracy_rows.h for runs
// on tasks. json has these rows and the runs themselves:
//   {"schema": "posenc.report/1", "runs": [a results.json without its window_nll, …],
//    "rows": [{scheme, label, extension, train_length, protocol, unit, split, protocol_hash, length, window, stride, targets, n,
//              nll_mean, nll_stderr, nll_half_width, ppl_…, bits_per_byte_…, status, reason}],
//    "accuracy": [a row of accuracy_rows.h, …]}
// *_stderr is set for n = 1 (over windows), *_half_width for n > 1 (95 % t interval over seeds). load_results reads it again.

#include <string>
#include <vector>

#include "core/results.h"

namespace posenc {

/// `format` is text, md, csv or json; another is a ConfigError that lists them, as is an empty list of runs.
std::string format_report(const std::vector<Results>& runs, const std::string& format);

/// The table shown when a run has finished.
std::string format_run_table(const Results& run);

}  // namespace posenc
