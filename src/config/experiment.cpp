#include "config/experiment.h"

#include <algorithm>

#include "core/files.h"

namespace posenc {
namespace {

bool valid_name(const std::string& name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), plain) && name.front() != '-' &&
         name.find_first_not_of('.') != std::string::npos;
}

const char* const kNameRule = "a run name is 1 to 100 of A-Z a-z 0-9 . _ - and does not start with -";

void check_positions(const Experiment& e, const Reader& reader) {
  e.model.position.check(e.shape(), reader.at("model").at("position"));
  if (e.model.extension) {
    const std::string misfit = extension_misfit(*e.model.extension, e.model.position.used_schemes());
    if (!misfit.empty()) reader.at("model").problem("extension", misfit);
  }
  for (std::size_t i = 0; i < e.train.phases.size(); ++i) {
    ModelConfig model = e.model;
    model.position = e.train.phases[i].position;
    const Reader place = reader.at("train").at("phases").at(std::to_string(i));
    model.position.check(model.shape(e.train.length), place.at("position"));
  }
}

void check_extensions(const Experiment& e, const Reader& reader) {
  if (e.model.kind != "transformer") {
    if (!e.eval.extensions.empty())
      reader.at("eval").problem("extensions", "model.kind " + e.model.kind + " has no positions to extend");
    return;
  }
  const auto schemes = (e.train.phases.empty() ? e.model.position : e.train.phases.back().position).used_schemes();
  for (std::size_t i = 0; i < e.eval.extensions.size(); ++i) {
    const std::string misfit = extension_misfit(e.eval.extensions[i], schemes);
    if (!misfit.empty()) reader.at("eval").at("extensions").problem(std::to_string(i), misfit);
  }
}

void check_batch(const TrainConfig& c, const Reader& r) {
  if (c.batch_tokens < c.length) {
    r.problem("batch_tokens",
              std::to_string(c.batch_tokens) + " is less than one sequence of length " + std::to_string(c.length));
  } else if (c.batch_tokens % c.length != 0) {
    const std::int64_t below = c.batch_tokens / c.length * c.length;
    r.problem("batch_tokens", std::to_string(c.batch_tokens) + " is not a multiple of length " + std::to_string(c.length) +
                                  " (try " + std::to_string(below) + " or " + std::to_string(below + c.length) + ")");
  }
}

/// The experiment with what a task decides in other sections: the training length is that of its longest example, a step holds as
/// many sequences of that length as batch_tokens has room for, and no text is scored.
Experiment fitted(Experiment e) {
  if (!e.data.is_task()) return e;
  e.train.length = task_inputs(*make_task(*e.data.task), trained_lengths(e.data));
  if (e.train.batch_tokens >= e.train.length) e.train.batch_tokens = e.train.batch_tokens / e.train.length * e.train.length;
  e.eval.lengths.clear();
  e.eval.protocols.clear();
  return e;
}

/// What a task decides cannot be given, unless it is what it would be anyway.
void check_task(const Experiment& given, const Experiment& e, const Reader& reader) {
  if (given.train.length != e.train.length && given.train.length != TrainConfig{}.length) {
    reader.at("train").problem("length", std::to_string(given.train.length) +
                                             " does not follow from data.train_lengths, which need " +
                                             std::to_string(e.train.length) + "; leave it out");
  }
  const EvalConfig defaults;
  if (!given.eval.lengths.empty() && given.eval.lengths != defaults.lengths)
    reader.at("eval").problem("lengths", "belongs to text; a task is tested at data.test_lengths");
  if (!given.eval.protocols.empty() && given.eval.protocols != defaults.protocols)
    reader.at("eval").problem("protocols", "belongs to text; a task is scored by its answers");
}

void check_text(const Experiment& e, const Reader& reader) {
  if (e.eval.lengths.empty()) return reader.at("eval").problem("lengths", "needs at least one length");
  if (e.eval.protocols.empty()) reader.at("eval").problem("protocols", "needs at least one protocol");
  const std::int64_t shortest = *std::min_element(e.eval.lengths.begin(), e.eval.lengths.end());
  const auto has = [&](const char* p) { return std::count(e.eval.protocols.begin(), e.eval.protocols.end(), p) > 0; };
  if (e.eval.targets && has("fixed_target")) {
    const std::int64_t limit = std::min(shortest, std::max<std::int64_t>(1, e.train.length / 2));
    if (*e.eval.targets > limit) {
      reader.at("eval").problem("targets", std::to_string(*e.eval.targets) + " is more than " + std::to_string(limit) +
                                               ": at most half the training length and the shortest evaluation length");
    }
  }
  if (e.eval.stride && has("sliding") && *e.eval.stride > shortest) {
    reader.at("eval").problem(
        "stride", std::to_string(*e.eval.stride) + " is more than the shortest evaluation length " + std::to_string(shortest));
  }
  if (e.eval.state == "carry" && e.model.kind == "transformer")
    reader.at("eval").problem("state", "a transformer has no state to carry; model.kind is lstm, gru or conv");
}

}  // namespace

template <>
const Schema<RuntimeConfig>& schema<RuntimeConfig>() {
  static const Schema<RuntimeConfig> table =
      Schema<RuntimeConfig>("runtime")
          .field("threads", &RuntimeConfig::threads, "worker threads; 0: the cores this process may use. Changes no number")
          .range(0, 1024)
          .field("device", &RuntimeConfig::device, "where tensors live")
          .choices({"auto", "cpu"})
          .field("dtype", &RuntimeConfig::dtype, "of parameters and activations")
          .choices({"float32", "float64"})
          .field("attention", &RuntimeConfig::attention,
                 "fused: tiles, where the scheme allows; reference: whole logits; blocked: by query blocks; auto: the fastest "
                 "that fits")
          .choices({"auto", "reference", "blocked", "fused"});
  return table;
}

template <>
const Schema<Experiment>& schema<Experiment>() {
  static const Schema<Experiment> table = Schema<Experiment>("posenc experiment")
                                              .field("name", &Experiment::name, "name of the run; default: the file's stem")
                                              .field("seed", &Experiment::seed, "of initial weights, batches and dropout")
                                              .at_least(0)
                                              .field("data", &Experiment::data, "text and tokenizer, or a task")
                                              .field("model", &Experiment::model, "architecture and positional scheme")
                                              .required()
                                              .field("train", &Experiment::train, "training on short sequences")
                                              .field("eval", &Experiment::eval, "evaluation at other lengths")
                                              .field("runtime", &Experiment::runtime, "how it is computed")
                                              .ignore("$schema")
                                              .check([](const Experiment& e, const Reader& r) {
                                                if (!e.name.empty() && !valid_name(e.name)) r.problem("name", kNameRule);
                                                const Experiment whole = fitted(e);
                                                check_batch(whole.train, r.at("train"));
                                                check_positions(whole, r);
                                                check_extensions(whole, r);
                                                whole.data.is_task() ? check_task(e, whole, r) : check_text(whole, r);
                                              });
  return table;
}

std::vector<Stage> stages(const Experiment& e) {
  std::vector<Stage> all = {{0, e.model, e.train}};
  for (const TrainPhase& phase : e.train.phases) {
    Stage next = all.back();
    next.first_step += next.train.steps;
    next.model.position = phase.position;
    next.train.steps = phase.steps;
    next.train.warmup = phase.warmup;
    next.train.lr = phase.lr.value_or(e.train.lr);
    next.train.min_lr = next.train.lr / 10;
    all.push_back(std::move(next));
  }
  return all;
}

std::string position_label(const Experiment& e) {
  std::string label = e.model.kind == "transformer" ? e.model.position.label() : e.model.kind;
  for (const TrainPhase& phase : e.train.phases) label += " -> " + phase.position.label();
  if (e.model.extension) label += " + " + e.model.extension->label();
  if (!e.train.from.empty()) {
    label +=
        ", " + std::to_string(e.train.total_steps() * e.train.batch_tokens) + " more tokens at " + std::to_string(e.train.length);
  }
  return label;
}

Experiment read_experiment(const Document& document, const std::string& stem) {
  Experiment e = fitted(read_document<Experiment>(document));
  if (e.name.empty()) e.name = stem;
  require_run_name(e.name);
  e.data.resolve();
  e.model.resolve();
  e.model.position.sampler.resolve(e.train.length);
  e.train.resolve();
  if (!e.data.is_task()) e.eval.resolve(e.train.length);
  return e;
}

Experiment load_experiment(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  Document document = load_json(path);
  for (const std::string& assignment : overrides) apply_override(document, assignment);
  return read_experiment(document, path.stem().string());
}

Json resolved_json(const Experiment& experiment) { return schema<Experiment>().write(experiment); }

std::string experiment_hash(const Experiment& experiment) {
  Json json = resolved_json(experiment);
  json.erase("name");
  json["runtime"].erase("threads");
  return sha256(dump_json_line(json));
}

void require_run_name(const std::string& name) {
  if (!valid_name(name)) throw ConfigError("\"" + name + "\": " + kNameRule);
}

}  // namespace posenc
