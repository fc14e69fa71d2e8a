#pragma once
// The command line: one file per subcommand. Each adds its options to the app and, when chosen, leaves its action; main runs the
// action and turns errors into exit codes. Commands that need tensors end in a function of tensor_commands.h.

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/json.h"

namespace posenc {

/// Options of every command.
struct GlobalOptions {
  std::string log_level = "info";
  std::string color = "auto";
  int threads = 0;  ///< 0: as the config says
};

/// What the chosen subcommand does; returns the exit code.
using Action = std::function<int()>;

void add_train(CLI::App& app, const GlobalOptions& global, Action& action);
void add_eval(CLI::App& app, const GlobalOptions& global, Action& action);
void add_sweep(CLI::App& app, const GlobalOptions& global, Action& action);
void add_report(CLI::App& app, const GlobalOptions& global, Action& action);
void add_compare(CLI::App& app, const GlobalOptions& global, Action& action);
void add_schemes(CLI::App& app, const GlobalOptions& global, Action& action);
void add_schema(CLI::App& app, const GlobalOptions& global, Action& action);
void add_plan(CLI::App& app, const GlobalOptions& global, Action& action);
void add_doctor(CLI::App& app, const GlobalOptions& global, Action& action);
void add_generate(CLI::App& app, const GlobalOptions& global, Action& action);
void add_inspect(CLI::App& app, const GlobalOptions& global, Action& action);
void add_search(CLI::App& app, const GlobalOptions& global, Action& action);
void add_import(CLI::App& app, const GlobalOptions& global, Action& action);
void add_export(CLI::App& app, const GlobalOptions& global, Action& action);
void add_bench(CLI::App& app, const GlobalOptions& global, Action& action);
void add_corpus(CLI::App& app, const GlobalOptions& global, Action& action);

/// What --extend names: pi, or {"method":"pi","factor":4}.
Json parse_extension(const std::string& text);

/// Text to stdout, or to a file (atomically) when one is named.
void deliver(const std::string& text, const std::string& file);

/// The arguments this process was started with, for handing over to another executable.
const std::vector<std::string>& process_arguments();

}  // namespace posenc
