#include "cli/command.h"
#include "data/corpora.h"
#include "data/corpus_import.h"

namespace posenc {

void add_corpus(CLI::App& app, const GlobalOptions&, Action& action) {
  struct Options {
    std::string name, source;
  };
  auto* command = app.add_subcommand("corpus", "install a named corpus (scripts/fetch_corpora does this)");
  command->require_subcommand(1);
  auto* import = command->add_subcommand("import", "split and check the text of an unpacked package");
  auto options = std::make_shared<Options>();
  import->add_option("name", options->name, "austen or kjv")->required()->check(CLI::IsMember(corpus_names()));
  import->add_option("source", options->source, "austen: folder of the unpacked package; kjv: file of verses")->required();
  import->callback([options, &action] {
    action = [options] {
      import_corpus(options->name, options->source);
  return 0;
};
}  // namespace posenc
);
}

}  // namespace posenc
