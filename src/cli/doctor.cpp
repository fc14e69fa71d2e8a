#include "cli/command.h"
#include "cli/tensor_commands.h"

namespace posenc {

void add_doctor(CLI::App& app, const GlobalOptions&, Action& action) {
  auto* command = app.add_subcommand(
      "doctor", "LibTorch, BLAS and its speed, SIMD, threads, memory, corpora; what is slow, and what mends it");
  auto format = std::make_shared<std::string>("text");
  command->add_option("--format", *format, "text or json")->check(CLI::IsMember({"text", "json"}));
  command->callback([format, &action] { action = [format] { return run_doctor(*format); }; });
}

}  // namespace posenc
