#pragma once
// A run's directory: what it holds (contract.md §4), who owns it, and whether a run may start, continue or replace what is there.
//
//   config.json  manifest.json  metrics.jsonl  tokenizer.json  checkpoints/{0,1}.posenc  model.safetensors
//   results.json (last)  report.md
//
// No torch.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "config/experiment.h"
#include "core/files.h"
#include "core/results.h"
#include "data/tokenizer.h"

namespace posenc {

enum class RunMode {
  kNew,        ///< the directory must not hold a run
  kResume,     ///< continue what is there; start when nothing is
  kOverwrite,  ///< delete what is there and start
};

class RunDirectory {
 public:
  /// Creates or opens `path` and locks it; writes config.json. ConfigError (exit 2): it holds a run and the mode is kNew; another
  /// process owns it; on resume its config differs (each difference with old and new value). IoError (exit 74): it cannot be
  /// written to.
  RunDirectory(std::filesystem::path path, const Experiment& experiment, RunMode mode);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const char* name) const { return path_ / name; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// The results of a run that has finished.
  std::optional<Results> finished() const;

  /// Drops logged steps after `step`, and opens the log for appending: after a crash each step stands in it once.
  void open_metrics(std::int64_t step);
  void log(const Json& metrics);

  void write_json(const char* name, const Json& json) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<DirectoryLock> lock_;
  std::unique_ptr<AppendFile> metrics_;
};

bool is_run(const std::filesystem::path& directory);

/// The configuration a run directory was made from, to change or as it is; ConfigError when there is none.
Document load_run_config(const std::filesystem::path& directory);
Experiment read_run_config(const std::filesystem::path& directory);

std::shared_ptr<Tokenizer> read_run_tokenizer(const std::filesystem::path& directory);

}  // namespace posenc
