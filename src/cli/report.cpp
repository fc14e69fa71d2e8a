#include "report/report.h"

#include "cli/command.h"

namespace posenc {

void add_report(CLI::App& app, const GlobalOptions&, Action& action) {
  struct Options {
    std::vector<std::string> paths;
    std::string format = "text", out;
  };
  auto* command = app.add_subcommand("report", "tables over runs and sweeps, from their files");
  auto options = std::make_shared<Options>();
  command->add_option("paths", options->paths, "run or sweep directories, results.json files")->required();
  command->add_option("--format", options->format, "text, md, csv or json");
  command->add_option("-o,--out", options->out, "write to this file instead of stdout");
  command->callback([options, &action] {
    action = [options] {
      std::vector<Results> runs;
      for (const std::string& path : options->paths) {
        for (Results& run : load_results(path)) runs.push_back(std::move(run));
      }
      deliver(format_report(runs, options->format), options->out);
      return 0;
    };
  });
}

}  // namespace posenc
