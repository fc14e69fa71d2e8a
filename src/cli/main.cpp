#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "cli/command.h"
#include "core/error.h"
#include "core/files.h"
#include "run/signals.h"

namespace posenc {
namespace {

std::vector<std::string> arguments;

/// NO_COLOR (when not empty) beats everything but an explicit --color; then the terminal decides.
bool use_color(const std::string& wish) {
  if (wish != "auto") return wish == "always";
  const char* no_color = std::getenv("NO_COLOR");
  return !(no_color && *no_color) && isatty(STDERR_FILENO) != 0;
}

void set_up_logging(const GlobalOptions& global) {
  const auto mode = use_color(global.color) ? spdlog::color_mode::always : spdlog::color_mode::never;
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_color_sink_st>(mode)));
  spdlog::set_pattern("%^%l:%$ %v");
  spdlog::set_level(spdlog::level::from_str(global.log_level));
}

int run_cli(int argc, char** argv) {
  CLI::App app(
      "What does a positional encoding do beyond the training length? Trains small transformers on short sequences, evaluates "
      "them at longer ones.",
      "posenc");
  app.require_subcommand(1);
  app.set_version_flag("--version", "posenc " POSENC_VERSION);
  app.fallthrough();  // --threads and the like also after the subcommand
  GlobalOptions global;
  app.add_option("--log-level", global.log_level, "what is said on stderr")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}));
  app.add_option("--color", global.color, "colours on stderr")->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--threads", global.threads, "worker threads; changes no number")->check(CLI::Range(1, 1024));
  Action action;
  add_train(app, global, action);
  add_eval(app, global, action);
  add_sweep(app, global, action);
  add_report(app, global, action);
  add_compare(app, global, action);
  add_schemes(app, global, action);
  add_schema(app, global, action);
  add_plan(app, global, action);
  add_doctor(app, global, action);
  add_generate(app, global, action);
  add_inspect(app, global, action);
  add_search(app, global, action);
  add_import(app, global, action);
  add_export(app, global, action);
  add_bench(app, global, action);
  add_corpus(app, global, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    app.exit(error, std::cerr, std::cerr);
    return static_cast<int>(ExitCode::kConfig);
  }
  set_up_logging(global);
  install_signal_handlers();
  return action();
}

}  // namespace

const std::vector<std::string>& process_arguments() { return arguments; }

Json parse_extension(const std::string& text) {
  const bool is_object = !text.empty() && text.front() == '{';
  return parse_json(is_object ? text : "\"" + text + "\"", "--extend " + text).root;
}

void deliver(const std::string& text, const std::string& file) {
  if (!file.empty() && file != "-") return write_file_atomic(file, text);
  std::cout << text << std::flush;
  if (!std::cout && errno != EPIPE)
    throw IoError(std::string("stdout: ") + std::strerror(errno));  // a reader that has seen enough is no error
}

}  // namespace posenc

int main(int argc, char** argv) {
  posenc::arguments.assign(argv, argv + argc);
  try {
    return posenc::run_cli(argc, argv);
  } catch (const posenc::Error& error) {
    std::cerr << "posenc: " << error.what() << "\n";
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::cerr << "posenc: " << error.what() << "\n";
    return 1;
  }
}
