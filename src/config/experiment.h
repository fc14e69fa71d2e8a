#pragma once
// An experiment: one JSON file as one value. The components own their sections; this assembles them, with the rules that need
// more than one section.
//
//   Experiment e = load_experiment("configs/rope.json", {"/train/steps=10"});   // ConfigError lists every problem
//   resolved_json(e)  // config.json: a run can be repeated from it alone

#include <filesystem>
#include <string>
#include <vector>

#include "core/schema.h"
#include "data/dataset.h"
#include "eval/config.h"
#include "model/config.h"
#include "train/config.h"

namespace posenc {

struct RuntimeConfig {
  std::int64_t threads = 0;  ///< 0: the cores this process may use
  std::string device = "auto";
  std::string dtype = "float32";
  std::string attention = "auto";
};

struct Experiment {
  std::string name;  ///< default: the file's stem
  std::int64_t seed = 1;
  DataConfig data;
  ModelConfig model;
  TrainConfig train;
  EvalConfig eval;
  RuntimeConfig runtime;

  ModelShape shape() const { return model.shape(train.length); }
};

/// A stretch of training with one model: the experiment's own, then one for each of train.phases.
struct Stage {
  std::int64_t first_step;
  ModelConfig model;
  TrainConfig train;
};
std::vector<Stage> stages(const Experiment& experiment);

/// What tables call the experiment's position: "rope", "rope -> none" over phases, "rope + yarn, 204800 more tokens at 512" where a
/// trained run goes on.
std::string position_label(const Experiment& experiment);

template <>
const Schema<RuntimeConfig>& schema<RuntimeConfig>();
template <>
const Schema<Experiment>& schema<Experiment>();

/// Reads a document already parsed; `stem` is the default name.
Experiment read_experiment(const Document& document, const std::string& stem);
/// Reads a file and applies `--set POINTER=JSON` overrides to it.
Experiment load_experiment(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

/// Every value written out, derived defaults included.
Json resolved_json(const Experiment& experiment);

/// SHA-256 of what decides the numbers of a run: everything but name and runtime.threads.
std::string experiment_hash(const Experiment& experiment);

/// Throws ConfigError unless `name` is [A-Za-z0-9._-]{1,100} and not made of dots alone.
void require_run_name(const std::string& name);

}  // namespace posenc
