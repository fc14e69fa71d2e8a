#include "cli/command.h"
#include "config/experiment.h"
#include "run/sweep.h"

namespace posenc {

void add_schema(CLI::App& app, const GlobalOptions&, Action& action) {
  auto* command = app.add_subcommand("schema", "JSON Schema of experiment and sweep files, for editors and checkers");
  command->callback([&action] {
    action = [] {
      const Json schema_json = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                                {"title", "posenc experiment or sweep"},
                                {"anyOf", {schema<Experiment>().describe(), schema<SweepConfig>().describe()}},
                                {"$defs", position_definitions()}};
      deliver(dump_json(schema_json), "");
      return 0;
    };
  });
}

}  // namespace posenc
