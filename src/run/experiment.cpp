#include "run/experiment.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include "core/machine.h"
#include "data/dataset.h"
#include "eval/accuracy.h"
#include "eval/evaluate.h"
#include "model/language_model.h"
#include "run/manifest.h"
#include "run/progress.h"
#include "run/signals.h"
#include "run/trained.h"
#include "train/checkpoint.h"
#include "train/loop.h"

namespace posenc {
namespace {

/// Tokens of the validation split, or examples of a task, behind each validation loss.
constexpr std::int64_t kValidTokens = 16384, kValidExamples = 256;

/// Fills in what is measured.
void evaluate_shown(const LanguageModel& model, const Dataset& dataset, const Experiment& e, Results& results) {
  Progress bar(e.name + ": evaluating");
  EvalSettings settings = eval_settings(e);
  settings.progress = [&](const std::string& what, double done) { bar.update(done, what); };
  if (dataset.task) {
    results.accuracy = evaluate_accuracy(model, *dataset.task, settings);
    return;
  }
  Evaluation evaluation = evaluate(model, dataset, settings);
  results.cells = std::move(evaluation.cells);
  results.by_position = std::move(evaluation.by_position);
}

/// What identifies a run in its results, before anything is measured.
Results describe_run(const Experiment& e, const Dataset& dataset, const LanguageModel& model) {
  Results r;
  r.name = e.name;
  r.scheme = position_label(e);
  r.unit = dataset.tokenizer->unit();
  r.split = e.eval.split;
  r.seed = e.seed;
  r.train_length = e.train.length;
  r.parameters = model.parameter_count();
  r.protocol_hash = dataset.task ? task_protocol_hash(*dataset.task, e.eval) : protocol_hash(dataset, e.eval);
  if (dataset.task) r.task = e.data.task->label(), r.task_lengths = *e.data.train_lengths;
  return r;
}

/// The attention path each part takes; a window longer than one group is scored alone.
Json attention_paths(const Experiment& e, const Dataset& dataset, const LanguageModel& model) {
  Pass pass;
  pass.attention = attention_path(e.runtime.attention);
  Json paths = {{"wanted", e.runtime.attention}};
  std::vector<std::int64_t> lengths = e.eval.lengths;
  for (const std::int64_t length : e.data.test_lengths.value_or(std::vector<std::int64_t>{}))  // of a task
    lengths.push_back(dataset.task->inputs(length));
  for (const std::int64_t length : lengths) {
    const std::int64_t rows = std::max<std::int64_t>(1, kGroupTokens / length);
    if (model.refusal(length, nullptr).empty())
      paths["evaluation"][std::to_string(length)] = model.attention_paths(rows, length, pass);
  }
  pass.training = true;
  paths["training"] = model.attention_paths(e.train.micro_batch(), e.train.length, pass);
  return paths;
}

/// Every planned cell with the reason why it holds no number.
void mark_diverged(Results& results, const Experiment& e, const Dataset& dataset, const std::string& reason) {
  results.status = "diverged";
  results.reason = reason;
  if (dataset.task) results.accuracy = accuracy_without_numbers(*dataset.task, e.eval, "diverged", reason);
  for (std::size_t x = 0; x <= e.eval.extensions.size(); ++x) {
    for (const std::string& protocol : e.eval.protocols) {
      for (const std::int64_t length : e.eval.lengths) {
        Cell cell;
        cell.extension = x == 0 ? "none" : e.eval.extensions[x - 1].label();
        cell.length = cell.window = length;
        cell.protocol = protocol;
        cell.status = "diverged";
        cell.reason = reason;
        results.cells.push_back(cell);
      }
    }
  }
}

/// Parameters that both models have, by name and shape.
void copy_common(const LanguageModel& from, LanguageModel& to) {
  const torch::NoGradGuard no_grad;
  const auto given = from.named_parameters();
  for (auto& item : to.named_parameters()) {
    const Tensor* source = given.find(item.key());
    if (source && source->sizes() == item.value().sizes()) item.value().copy_(*source);
  }
}

/// Starts `to` from the weights of a finished run. What its position has and the run's has not stays initialised.
void begin_from(const LanguageModel& run, LanguageModel& to) {
  const auto given = run.named_parameters();
  for (const auto& item : to.named_parameters()) {
    const Tensor* source = given.find(item.key());
    if (source && source->sizes() == item.value().sizes()) continue;
    if (item.key().rfind("position", 0) != 0)
      throw ConfigError("train.from: the run's model has no " + item.key() + " of shape " + c10::str(item.value().sizes()));
    spdlog::warn("{} starts anew: the run has none of its shape", item.key());
  }
  copy_common(run, to);
}

/// One training, from its last checkpoint to the end, with what goes to disk on the way.
class Training {
 public:
  /// `start` is the model of train.from, or null.
  Training(const Experiment& e, RunDirectory& directory, const Dataset& dataset, const LanguageModel* start)
      : e_(e), directory_(directory), dataset_(dataset), stages_(stages(e)), store_(directory.checkpoints(), experiment_hash(e)) {
    const std::int64_t done = store_.newest_step().value_or(0);
    while (stage_ + 1 < stages_.size() && done > stages_[stage_ + 1].first_step) ++stage_;
    build();
    if (const auto found = store_.load(*model_, *optimizer_)) {
      state_ = {found->step, found->extra["first_loss"], found->extra["bad_steps"]};
      seconds_ = found->extra["seconds"];
      resumes_ = found->extra["resumes"].get<std::int64_t>() + 1;
      for (const std::string& warning : found->warnings) spdlog::warn("{}", warning);
      spdlog::info("resuming {} at step {} of {}", e.name, state_.step, e.train.total_steps());
    } else if (start) {
      begin_from(*start, *model_);
    }
    directory_.open_metrics(state_.step);
  }

  TrainOutcome run() {
    Progress bar(e_.name + ": training");
    TrainHooks hooks;
    hooks.log = [&](const StepMetrics& m) { log(m); };
    hooks.progress = [&](std::int64_t step, double loss) {
      bar.update(static_cast<double>(step) / static_cast<double>(e_.train.total_steps()),
                 fmt::format("step {} loss {:.4f}", step, loss));
    };
    hooks.checkpoint = [&](std::int64_t step) { save(step); };
    hooks.stop = stop_requested;
    hooks.validate = [&] { return validation_loss(); };
    for (;;) {
      const Stage& stage = stages_[stage_];
      const TrainSettings settings{stage.train,         stage.first_step,           static_cast<std::uint64_t>(e_.seed),
                                   stage.model.dropout, worker_threads(e_.runtime), attention_path(e_.runtime.attention)};
      const TrainOutcome outcome = train(*model_, *optimizer_, batches(), settings, state_, hooks);
      if (outcome.status != TrainStatus::kFinished || stage_ + 1 == stages_.size()) return outcome;
      const auto before = model_;
      ++stage_;
      build();
      copy_common(*before, *model_);
    }
  }

  const LanguageModel& model() const { return *model_; }
  double seconds() const { return seconds_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }
  std::int64_t resumes() const { return resumes_; }

 private:
  void build() {
    model_ = build_model(e_, stages_[stage_].model, dataset_.tokenizer->vocab_size());
    model_->initialise(static_cast<std::uint64_t>(e_.seed));
    optimizer_.emplace(model_->parameters(), stages_[stage_].train);
  }

  BatchSource batches() const {
    const auto seed = static_cast<std::uint64_t>(e_.seed);
    return dataset_.task ? task_batches(*dataset_.task, e_.train, seed) : text_batches(dataset_.train, e_.train, seed);
  }

  double validation_loss() const {
    if (dataset_.task) return answer_loss(*model_, *dataset_.task, kValidExamples, eval_settings(e_));
    return mean_loss(*model_, dataset_.valid, e_.train.length, kValidTokens, eval_settings(e_));
  }

  void log(const StepMetrics& m) {
    Json line = {
        {"step", m.step}, {"loss", m.loss}, {"lr", m.lr}, {"grad_norm", m.grad_norm}, {"tokens_per_s", m.tokens_per_second}};
    if (m.valid_loss) line["valid_loss"] = std::isfinite(*m.valid_loss) ? Json(*m.valid_loss) : Json(nullptr);
    directory_.log(line);
  }

  void save(std::int64_t step) {
    const Json extra = {
        {"first_loss", state_.first_loss}, {"bad_steps", state_.bad_steps}, {"seconds", seconds()}, {"resumes", resumes_}};
    store_.save(step, extra, *model_, *optimizer_);
  }

  const Experiment& e_;
  RunDirectory& directory_;
  const Dataset& dataset_;
  const std::vector<Stage> stages_;
  std::size_t stage_ = 0;
  std::shared_ptr<LanguageModel> model_;
  std::optional<AdamW> optimizer_;
  CheckpointStore store_;
  LoopState state_;
  double seconds_ = 0;
  std::int64_t resumes_ = 0;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

void write_weights(const RunDirectory& directory, const LanguageModel& model, const Experiment& e) {
  TensorFile file = model_tensors(model);
  Json config = resolved_json(e);
  config["runtime"]["threads"] = 0;  // any number of threads leaves the same bytes
  file.metadata["posenc"] = dump_json_line(config);
  write_file_atomic(directory.file("model.safetensors"), format_safetensors(file));
}

/// Throws where the parameters of an extension are not for the model (LongRoPE's factors), before anything is written.
void try_extensions(const Experiment& e, std::int64_t vocab) {
  if (e.eval.extensions.empty() && !e.model.extension) return;
  const auto model = build_model(e, stages(e).back().model, vocab);
  model->refusal(e.train.length, nullptr);
  for (const ExtensionConfig& named : e.eval.extensions) {
    const auto extension = make_extension(named);
    model->refusal(e.train.length, extension.get());
    for (const std::int64_t length : e.eval.lengths) model->refusal(length, extension.get());
  }
}

/// --resume continues over the same text: a config names files, whose bytes may have changed since.
void require_same_text(const RunDirectory& directory, const Json& manifest) {
  const fs::path file = directory.file("manifest.json");
  if (!fs::exists(file)) return;
  const Json before = load_json(file).root;
  std::vector<Problem> changes;
  for (const char* split : {"train", "valid", "test"}) {
    const Json::json_pointer digest(fmt::format("/data/{}/sha256", split));
    if (!before.contains(digest) || before[digest] == manifest[digest]) continue;
    changes.push_back({"", "/data",
                       fmt::format("the {} text has changed: SHA-256 {} in the run, {} now", split,
                                   before[digest].get<std::string>(), manifest[digest].get<std::string>())});
  }
  if (changes.empty()) return;
  changes.push_back({directory.path().string(), "", "cannot resume over another text; use --out for a new run or --overwrite"});
  throw ConfigError(std::move(changes));
}

}  // namespace

EvalSettings eval_settings(const Experiment& e) {
  EvalSettings settings;
  settings.config = e.eval;
  settings.seed = static_cast<std::uint64_t>(e.seed);
  settings.threads = worker_threads(e.runtime);
  settings.attention = attention_path(e.runtime.attention);
  settings.stop = stop_requested;
  return settings;
}

int worker_threads(const RuntimeConfig& runtime) {
  return runtime.threads > 0 ? static_cast<int>(runtime.threads) : available_cores();
}

Results run_experiment(const Experiment& e, const fs::path& path, RunMode mode) {
  // Before anything is written: a missing file leaves no directory behind.
  const TrainedRun start = e.train.from.empty() ? TrainedRun{} : load_trained(e.train.from, read_run_config(e.train.from));
  const Dataset dataset = load_dataset(e.data, start.tokenizer);
  if (dataset.task) {
    for (const char* part : {"train", "valid"}) dataset.task->sequences(part, 0, 0, 1);  // throws when there is none
  } else {
    require_window(dataset.train, e.train.length);
    require_window(dataset.split(e.eval.split), *std::max_element(e.eval.lengths.begin(), e.eval.lengths.end()));
  }
  try_extensions(e, dataset.tokenizer->vocab_size());

  RunDirectory directory(path, e, mode);
  Json manifest = run_manifest(e, dataset, worker_threads(e.runtime));
  require_same_text(directory, manifest);
  if (start.model)
    manifest["from"] = {{"run", e.train.from}, {"sha256", sha256(read_file(fs::path(e.train.from) / "model.safetensors"))}};
  if (auto done = directory.finished()) {
    spdlog::info("{} is finished already", path.string());
    return *done;
  }
  directory.write_json("manifest.json", manifest);
  directory.write_json("tokenizer.json", dataset.tokenizer->state());

  Training training(e, directory, dataset, start.model.get());
  const TrainOutcome outcome = training.run();
  if (outcome.status == TrainStatus::kStopped) {
    throw Error(ExitCode::kStopped,
                fmt::format("stopped at step {} of {}; --resume continues it", outcome.step, e.train.total_steps()));
  }
  Results results = describe_run(e, dataset, training.model());
  results.train_seconds = training.seconds();
  if (!dataset.task)  // else batch_tokens counts padding
    results.tokens_per_second = static_cast<double>(outcome.step * e.train.batch_tokens) / *results.train_seconds;
  if (outcome.status == TrainStatus::kDiverged) {
    mark_diverged(results, e, dataset, outcome.reason);
  } else {
    write_weights(directory, training.model(), e);
    evaluate_shown(training.model(), dataset, e, results);
  }
  manifest.update(Json{{"finished", utc_now()},
                       {"attention", attention_paths(e, dataset, training.model())},
                       {"peak_rss_bytes", peak_rss()},
                       {"tokens_per_s", results.tokens_per_second ? Json(*results.tokens_per_second) : Json(nullptr)},
                       {"resumes", training.resumes()},
                       {"protocol_hash", results.protocol_hash}});
  directory.write_json("manifest.json", manifest);
  directory.write_json("results.json", results_to_json(results));
  return results;
}

Results evaluate_run(const fs::path& path, const Experiment& e) {
  const TrainedRun run = load_trained(path, e);
  const Dataset dataset = load_dataset(e.data, run.tokenizer);
  Results results = describe_run(e, dataset, *run.model);
  evaluate_shown(*run.model, dataset, e, results);
  return results;
}

}  // namespace posenc
