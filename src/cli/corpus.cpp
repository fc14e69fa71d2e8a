#include <fmt/format.h>

#include "cli/command.h"
#include "data/corpora.h"
#include "data/corpus_import.h"
#include "data/order_free.h"

namespace posenc {
namespace {

void add_import(CLI::App& command, Action& action) {
  struct Options {
    std::string name, source;
  };
  auto* import = command.add_subcommand("import", "split and check the text of an unpacked package");
  auto options = std::make_shared<Options>();
  import->add_option("name", options->name, "austen or kjv")->required()->check(CLI::IsMember(corpus_names()));
  import->add_option("source", options->source, "austen: folder of the unpacked package; kjv: file of verses")->required();
  import->callback([options, &action] {
    action = [options] {
      import_corpus(options->name, options->source);
  return 0;
};
}  // namespace
);
}  // namespace posenc

void add_floor(CLI::App& command, Action& action) {
  struct Options {
    std::string name = "austen";
    std::int64_t length = 128;
  };
  auto* floor = command.add_subcommand("floor", "loss on the test split of a model that knows no order");
  auto options = std::make_shared<Options>();
  floor->add_option("name", options->name, "austen or kjv")->check(CLI::IsMember(corpus_names()));
  floor->add_option("--length", options->length, "tokens of context")->check(CLI::Range(1, 1 << 20));
  floor->callback([options, &action] {
    action = [options] {
      DataConfig config;
      config.corpus = options->name;
      const OrderFreeLoss loss = order_free_loss(load_dataset(config), "test", options->length);
      deliver(fmt::format("nats per byte on the test split of {}\n"
                          "frequencies of the training split        {:.4f}\n"
                          "bag of the last {} bytes, share {:.2f}    {:.4f}\n",
                          options->name, loss.unigram, options->length, loss.mixture, loss.bag_of_context),
              "");
      return 0;
    };
  });
}

}  // namespace

void add_corpus(CLI::App& app, const GlobalOptions&, Action& action) {
  auto* command = app.add_subcommand("corpus", "named corpora: install one (scripts/fetch_corpora does this), or its floor");
  command->require_subcommand(1);
  add_import(*command, action);
  add_floor(*command, action);
}

}  // namespace posenc
