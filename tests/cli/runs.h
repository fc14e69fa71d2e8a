#pragma once
// Runs small enough for tests: a text, configs, what a run left behind, and one undisturbed run that others are held against.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/process.h"
#include "core/files.h"
#include "core/json.h"
#include "core/scratch.h"

namespace posenc {

/// Words in an order that a small model can learn something of; about six bytes a word.
inline std::string sample_text(std::size_t words = 1500) {
  const char* const kWords[] = {"the ", "cat ", "sat ", "on ", "a ", "mat ", "and ", "dogs ", "ran ", "far ", "away.\n", "rain "};
  std::string text;
  std::uint64_t state = 7;
  for (std::size_t i = 0; i < words; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    text += kWords[(state >> 60) % 12];
  }
  return text;
}

/// Three steps of almost nothing.
inline Json tiny_config(const std::string& text) {
  return {{"data", {{"path", text}}},
          {"model", {{"layers", 1}, {"d_model", 16}, {"heads", 2}, {"position", "rope"}}},
          {"train", {{"length", 8}, {"batch_tokens", 32}, {"steps", 3}, {"log_every", 1}}},
          {"eval", {{"lengths", {8}}, {"windows", 4}, {"tokens", 64}, {"by_position", 0}}}};
}

/// A run with everything that could go astray when it is interrupted: dropout, warm-up, micro-batches, an extension.
inline Json whole_config(const std::string& text) {
  return {{"name", "whole"},
          {"data", {{"path", text}}},
          {"model", {{"layers", 1}, {"d_model", 16}, {"heads", 2}, {"dropout", 0.1}, {"position", "rope"}}},
          {"train",
           {{"length", 16},
            {"batch_tokens", 128},
            {"micro_batch_tokens", 32},
            {"steps", 120},
            {"lr", 0.01},
            {"warmup", 40},
            {"log_every", 1},
            {"checkpoint_every", 10}}},
          {"eval", {{"lengths", {8, 16, 32}}, {"windows", 64}, {"tokens", 0}, {"by_position", 16}, {"extensions", {"pi"}}}},
          {"runtime", {{"threads", 1}}}};
}

inline std::filesystem::path write_text(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
  return file;
}

inline std::filesystem::path write_config(const std::filesystem::path& file, const Json& config) {
  return write_text(file, dump_json(config));
}

/// Strict: NaN, Infinity or trailing text throw.
inline Json read_json(const std::filesystem::path& file) { return Json::parse(read_file(file)); }

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::vector<Json> read_metrics(const std::filesystem::path& run) {
  std::vector<Json> metrics;
  for (const std::string& line : lines_of(read_file(run / "metrics.jsonl"))) metrics.push_back(Json::parse(line));
  return metrics;
}

/// Whether the log has reached `steps` lines.
inline bool has_logged(const std::filesystem::path& run, std::size_t steps) {
  return std::filesystem::exists(run / "metrics.jsonl") && lines_of(read_file(run / "metrics.jsonl")).size() >= steps;
}

using Snapshot = std::map<std::string, std::string>;

/// Every file below `folder` with its bytes; of LOCK only that it is there, as each process that comes writes its name into it.
inline Snapshot snapshot(const std::filesystem::path& folder) {
  Snapshot files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const bool counts = entry.is_regular_file() && entry.path().filename() != "LOCK";
    files[entry.path().lexically_relative(folder)] = counts ? read_file(entry.path()) : "";
  }
  return files;
}

/// Fails, naming the files, unless `folder` is as it was.
inline void expect_untouched(const std::filesystem::path& folder, const Snapshot& before) {
  const Snapshot now = snapshot(folder);
  for (const auto& [file, bytes] : before) {
    const auto found = now.find(file);
    EXPECT_TRUE(found != now.end() && found->second == bytes)
        << folder / file << (found == now.end() ? " is gone" : " has changed");
  }
  for (const auto& [file, bytes] : now) EXPECT_TRUE(before.contains(file)) << folder / file << " is new";
}

/// Fails unless `run` left what `whole` left: weights, everything measured, each step once with the same numbers. Only times may
/// differ.
inline void expect_same_run(const std::filesystem::path& whole, const std::filesystem::path& run) {
  EXPECT_TRUE(read_file(whole / "model.safetensors") == read_file(run / "model.safetensors")) << "weights differ";
  const Json want = read_json(whole / "results.json"), got = read_json(run / "results.json");
  for (const char* key : {"cells", "by_position", "protocol_hash", "parameters", "status"})
    EXPECT_EQ(want.at(key), got.at(key)) << key;
  std::vector<Json> steps = read_metrics(whole), logged = read_metrics(run);
  for (auto* list : {&steps, &logged}) {
    for (Json& line : *list) line.erase("tokens_per_s");
  }
  EXPECT_EQ(steps, logged);
}

/// One run from start to end on one thread, made when first asked for.
struct WholeRun {
  WholeRun()
      : text(write_text(scratch / "text.txt", sample_text())),
        config(write_config(scratch / "whole.json", whole_config(text))),
        path(scratch / "whole"),
        outcome(run({{"train", "--config", config, "--out", path}})) {}
  Scratch scratch;
  std::filesystem::path text, config, path;
  Outcome outcome;
};

inline const WholeRun& whole_run() {
  static const WholeRun run;
  return run;
}

/// The same run, killed after two checkpoints; as it lay on the disk then.
struct KilledRun {
  KilledRun() : path(scratch / "killed") {
    Process training({{"train", "--config", whole_run().config, "--out", path}});
    EXPECT_TRUE(training.wait_until([&] { return has_logged(path, 25); }));
    training.signal(SIGKILL);
    EXPECT_EQ(training.wait().signal, SIGKILL);
  }
  /// A copy to go on with.
  std::filesystem::path copy_to(const std::filesystem::path& target) const {
    std::filesystem::copy(path, target, std::filesystem::copy_options::recursive);
    return target;
  }
  Scratch scratch;
  std::filesystem::path path;
};

inline const KilledRun& killed_run() {
  static const KilledRun run;
  return run;
}

/// Goes on with a run of whole_run()'s config.
inline Outcome resume(const std::filesystem::path& path) {
  return run({{"train", "--config", whole_run().config, "--out", path, "--resume"}});
}

}  // namespace posenc
