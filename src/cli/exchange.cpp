// posenc import and posenc export: Hugging Face's Llama layout. Neither computes anything with the weights, so no torch.
#include "cli/command.h"
#include "core/safetensors.h"
#include "data/tokenizer.h"
#include "model/hugging_face.h"
#include "run/run_dir.h"

namespace posenc {
namespace {

struct ExchangeOptions {
  std::string from, to;
};

fs::path required_file(const fs::path& folder, const char* name) {
  if (!fs::exists(folder / name)) throw ConfigError(folder.string() + " has no " + name);
  return folder / name;
}

/// An experiment that describes the model as a run of ours; what is not known of its training stands at the defaults.
Experiment experiment_of(const HuggingFaceModel& model, const fs::path& out) {
  const std::int64_t length = model.train_length;
  Json json = {{"name", fs::absolute(out / ".").parent_path().filename().string()},
               {"data", {{"tokenizer", "ids"}}},
               {"model", schema<ModelConfig>().write(model.config)},
               {"train", {{"length", length}, {"batch_tokens", length}}},
               {"eval", {{"lengths", {length, 2 * length, 4 * length}}}}};
  return read_experiment(Document{std::move(json), "import", {}}, "import");
}

int import_model(const ExchangeOptions& o) {
  const fs::path from(o.from), config = required_file(from, "config.json"), weights = required_file(from, "model.safetensors");
  const HuggingFaceModel model = read_hugging_face(load_json(config));
  const TensorFile ours = from_hugging_face(read_safetensors(weights), model.config, weights.string());
  const std::vector<std::int64_t>& embedding = ours.tensors.at("embedding").shape;
  if (embedding != std::vector<std::int64_t>{model.vocab, model.config.d_model})
    throw DataError(weights.string() + ": the embedding does not have the shape that config.json says");
  const Experiment experiment = experiment_of(model, o.to);
  RunDirectory directory(o.to, experiment, RunMode::kNew);
  directory.write_json("manifest.json",
                       {{"imported", {{"from", fs::absolute(from).string()}, {"sha256", sha256(read_file(weights))}}}});
  directory.write_json("tokenizer.json", {{"tokenizer", "ids"}, {"vocab", model.vocab}});
  write_file_atomic(directory.file("model.safetensors"), format_safetensors(ours));
  return 0;
}

int export_run(const ExchangeOptions& o) {
  const fs::path run(o.from), to(o.to);
  const Experiment e = read_run_config(run);
  const fs::path weights = required_file(run, "model.safetensors");
  required_file(run, "tokenizer.json");
  if (fs::exists(to) && !fs::is_empty(to)) throw ConfigError(to.string() + " is not empty");
  const auto vocab = read_run_tokenizer(run)->vocab_size();
  const ModelConfig model = stages(e).back().model;
  const Json config = hugging_face_config({model, vocab, model.trained_length.value_or(e.train.length)});
  const TensorFile theirs = to_hugging_face(read_safetensors(weights), model, weights.string());
  make_writable_directory(to);
  write_file_atomic(to / "config.json", dump_json(config));
  write_file_atomic(to / "model.safetensors", format_safetensors(theirs));
  return 0;
}

}  // namespace

void add_import(CLI::App& app, const GlobalOptions&, Action& action) {
  auto* command = app.add_subcommand("import", "make a run of a Llama in Hugging Face's layout; its text is token ids");
  auto options = std::make_shared<ExchangeOptions>();
  command->add_option("from", options->from, "folder with config.json and model.safetensors")->required();
  command->add_option("--out", options->to, "run directory to make")->required();
  command->callback([options, &action] { action = [options] { return import_model(*options); }; });
}

void add_export(CLI::App& app, const GlobalOptions&, Action& action) {
  auto* command =
      app.add_subcommand("export", "write a trained Llama-like model (rope, rmsnorm, swiglu) in Hugging Face's layout");
  auto options = std::make_shared<ExchangeOptions>();
  command->add_option("run", options->from, "run directory")->required();
  command->add_option("--to", options->to, "folder to make")->required();
  command->callback([options, &action] { action = [options] { return export_run(*options); }; });
}

}  // namespace posenc
