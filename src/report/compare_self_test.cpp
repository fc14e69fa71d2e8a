#include <fmt/format.h>

#include <functional>

#include "report/compare.h"

namespace posenc {
namespace {

using Runs = std::vector<Results>;

/// Two schemes × two lengths, with made-up losses.
Runs sample_runs() {
  Runs runs;
  for (const std::string scheme : {"alibi", "rope"}) {
    Results run;
    run.name = run.scheme = scheme;
    run.protocol_hash = "self-test";
    run.seed = 1, run.train_length = 128;
    for (const std::int64_t length : {128, 256}) {
      Cell cell;
      cell.length = length, cell.protocol = "fixed_target", cell.window = length, cell.stride = length, cell.targets = 1024;
      cell.nll = scheme == "alibi" ? 1.5 : 1.6;
      cell.stderr_ = 0.01;
      run.cells.push_back(settled(cell, run.unit));
    }
    runs.push_back(run);
  }
  return runs;
}

/// Through the file format and back, as a real candidate comes.
Runs reread(const Runs& runs, const std::function<void(Json&)>& edit) {
  Runs out;
  for (const Results& run : runs) {
    Json json = results_to_json(run);
    edit(json);
    out.push_back(results_from_json(json, run.name));
  }
  return out;
}

Runs with_nll(double difference) {
  Runs runs = sample_runs();
  for (Results& run : runs) {
    for (Cell& cell : run.cells) cell.nll = *cell.nll + difference;
  }
  return reread(runs, [](Json&) {});
}

}  // namespace

bool compare_self_test(std::string& log) {
  bool passed = true;
  const auto expect = [&](const std::string& what, const Comparison& got, ExitCode want) {
    passed = passed && got.verdict == want;
    log += fmt::format("{}  {}: exit {}, expected {}\n", got.verdict == want ? "ok  " : "FAIL", what,
                       static_cast<int>(got.verdict), static_cast<int>(want));
  };
  const Runs base = reread(sample_runs(), [](Json&) {});
  Runs fewer = base, other_protocol = base, worse_and_fewer = with_nll(0.0488);
  fewer[0].cells.pop_back();
  worse_and_fewer[0].cells.pop_back();
  for (Results& run : other_protocol) run.protocol_hash = "another";
  const Runs nulls = reread(base, [](Json& json) { json["cells"][0]["nll"] = nullptr; });

  expect("the same table", compare(base, base), ExitCode::kOk);
  expect("perplexity 5 % worse", compare(base, with_nll(0.0488)), ExitCode::kGateFailed);  // exp(0.0488) = 1.0500
  expect("perplexity 5 % better", compare(base, with_nll(-0.0488)), ExitCode::kOk);
  expect("perplexity 1 % worse", compare(base, with_nll(0.00995)), ExitCode::kOk);  // exp(0.00995) = 1.0100
  expect("a perplexity above an absolute limit", compare(base, base, {parse_gate("ppl>4")}), ExitCode::kGateFailed);
  expect("a cell dropped", compare(base, fewer), ExitCode::kNotComparable);
  expect("a cell dropped and the others worse", compare(base, worse_and_fewer), ExitCode::kNotComparable);
  expect("a run dropped", compare(base, {base[0]}), ExitCode::kNotComparable);
  expect("another protocol", compare(base, other_protocol), ExitCode::kNotComparable);
  expect("a null instead of a number", compare(base, nulls), ExitCode::kNotComparable);
  expect("a gate on a length that was not evaluated", compare(base, base, {parse_gate("ppl@333>+2%")}), ExitCode::kNotComparable);
  expect("no baseline file", compare_paths("/nonexistent/baseline.json", "/nonexistent/candidate.json"),
         ExitCode::kNotComparable);
  log += passed ? "self-test passed: the gate can fail\n" : "self-test FAILED: do not trust this gate\n";
  return passed;
}

}  // namespace posenc
