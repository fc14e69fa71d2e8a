#include "report/compare.h"

#include "cli/command.h"

namespace posenc {
namespace {

struct CompareOptions {
  std::string baseline, candidate, format = "text", out;
  std::vector<std::string> fail_on;
  bool self_test = false;
};

int run_compare(const CompareOptions& o) {
  if (o.self_test) {
    std::string log;
    const bool passed = compare_self_test(log);
    deliver(log, o.out);
    return passed ? 0 : 1;
  }
  if (o.baseline.empty() || o.candidate.empty()) throw ConfigError("compare needs a BASELINE and a CANDIDATE (or --self-test)");
  std::vector<Gate> gates;
  for (const std::string& text : o.fail_on) gates.push_back(parse_gate(text));
  const Comparison comparison = compare_paths(o.baseline, o.candidate, gates);
  deliver(format_comparison(comparison, o.format), o.out);
  return static_cast<int>(comparison.verdict);
}

}  // namespace

void add_compare(CLI::App& app, const GlobalOptions&, Action& action) {
  auto* command = app.add_subcommand(
      "compare", "the CI gate: candidate against baseline, cell by cell; exits 0, 1 (worse), 3 (cannot compare)");
  auto options = std::make_shared<CompareOptions>();
  command->add_option("baseline", options->baseline, "run or sweep directory, results.json or report.json");
  command->add_option("candidate", options->candidate, "the same of the new run");
  command->add_option("--fail-on", options->fail_on, "gate such as 'ppl@512>+2%' (default 'ppl>+2%')")->allow_extra_args(false);
  command->add_option("--format", options->format, "text, md, csv or json");
  command->add_option("-o,--out", options->out, "write to this file instead of stdout");
  command->add_flag("--self-test", options->self_test, "prove on a made-up table that the gate can fail");
  command->callback([options, &action] { action = [options] { return run_compare(*options); }; });
}

}  // namespace posenc
