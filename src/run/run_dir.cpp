#include "run/run_dir.h"

#include <sstream>

namespace posenc {
namespace {

const char* const kFiles[] = {"config.json",       "manifest.json", "metrics.jsonl", "tokenizer.json",
                              "model.safetensors", "results.json",  "report.md",     "status.json"};

void collect_differences(const Json& old_value, const Json& new_value, const std::string& pointer, std::vector<Problem>& out) {
  if (pointer == "/name" || pointer == "/runtime/threads") return;  // neither changes a number
  if (old_value.is_object() && new_value.is_object()) {
    Json keys = old_value;
    keys.update(new_value);
    for (const auto& [key, unused] : keys.items()) {
      collect_differences(old_value.value(key, Json()), new_value.value(key, Json()), pointer + "/" + key, out);
    }
  } else if (old_value != new_value) {
    out.push_back({"", pointer, "the run has " + dump_json_line(old_value) + ", the config says " + dump_json_line(new_value)});
  }
}

/// --resume continues the same experiment or nothing.
void require_same(const fs::path& directory, const Experiment& experiment) {
  std::vector<Problem> differences;
  collect_differences(load_run_config(directory).root, resolved_json(experiment), "", differences);
  if (differences.empty()) return;
  differences.push_back(
      {directory.string(), "", "cannot resume with another configuration; use --out for a new run or --overwrite"});
  throw ConfigError(std::move(differences));
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, const Experiment& experiment, RunMode mode) : path_(std::move(path)) {
  make_writable_directory(path_);
  lock_ = std::make_unique<DirectoryLock>(path_);
  const bool existed = is_run(path_);
  if (existed && mode == RunMode::kNew) {
    throw ConfigError(path_.string() +
                      " holds a run already: --resume continues it, --overwrite replaces it, --out names another place");
  }
  if (existed && mode == RunMode::kResume) require_same(path_, experiment);
  if (mode == RunMode::kOverwrite) {
    for (const char* name : kFiles) fs::remove(file(name));
    fs::remove_all(checkpoints());
  }
  if (!existed || mode != RunMode::kResume) write_json("config.json", resolved_json(experiment));
  fs::remove(file("status.json"));  // of an earlier, failed try
}

std::optional<Results> RunDirectory::finished() const {
  if (!fs::exists(file("results.json"))) return std::nullopt;
  return load_results(file("results.json")).front();
}

void RunDirectory::open_metrics(std::int64_t step) {
  const fs::path log = file("metrics.jsonl");
  if (fs::exists(log)) {
    std::istringstream lines(read_file(log));
    std::string kept;
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (json.is_object() && json.contains("step") && json["step"].is_number_integer() && json["step"] <= step)
        kept += line + "\n";
    }
    write_file_atomic(log, kept);
  }
  metrics_ = std::make_unique<AppendFile>(log);
}

void RunDirectory::log(const Json& metrics) { metrics_->line(dump_json_line(metrics)); }

void RunDirectory::write_json(const char* name, const Json& json) const { write_file_atomic(file(name), dump_json(json)); }

bool is_run(const fs::path& directory) { return fs::exists(directory / "config.json"); }

Document load_run_config(const fs::path& directory) {
  if (!is_run(directory)) throw ConfigError(directory.string() + " holds no run (there is no config.json)");
  return load_json(directory / "config.json");
}

Experiment read_run_config(const fs::path& directory) { return read_experiment(load_run_config(directory), "config"); }

std::shared_ptr<Tokenizer> read_run_tokenizer(const fs::path& directory) {
  const fs::path path = directory / "tokenizer.json";
  return restore_tokenizer(load_json(path).root, path.string());
}

}  // namespace posenc
