#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "core/error.h"
#include "core/files.h"
#include "core/results.h"

namespace posenc {
namespace {

constexpr JsonLimits kLimits{std::size_t{256} << 20, 64, 4'000'000};  // window_nll makes results longer than a config may be

std::vector<Results> load_file(const fs::path& path) {
  Document document;
  try {
    document = load_json(path, kLimits);
  } catch (const ConfigError& error) {
    throw DataError(error.what());
  }
  if (!document.root.is_object() || !document.root.contains("runs")) return {results_from_json(document.root, path.string())};
  const Json& list = document.root["runs"];
  if (!list.is_array() || list.empty()) throw DataError(fmt::format("{}: /runs: a list of runs belongs here", path.string()));
  std::vector<Results> runs;
  for (const Json& run : list) runs.push_back(results_from_json(run, fmt::format("{}: /runs/{}", path.string(), runs.size())));
  return runs;
}

bool is_run_directory(const fs::path& directory) {
  constexpr std::array kMarks = {"results.json", "config.json", "status.json", "manifest.json"};
  return std::ranges::any_of(kMarks, [&](const char* mark) { return fs::is_regular_file(directory / mark); });
}

/// What a file of an unfinished run says, as far as it can be read: its last write may have been cut short.
Json read_leniently(const fs::path& path) {
  return fs::is_regular_file(path) ? Json::parse(read_file(path), nullptr, false, true) : Json();
}

Json value_at(const Json& json, const char* pointer) {
  const Json::json_pointer place(pointer);
  return json.is_object() && json.contains(place) ? json.at(place) : Json();
}

Results unfinished_run(const fs::path& directory) {
  const Json config = read_leniently(directory / "config.json");
  const Json status = read_leniently(directory / "status.json");
  const auto text = [](const Json& json, const char* pointer, const std::string& fallback) {
    const Json value = value_at(json, pointer);
    return value.is_string() ? value.get<std::string>() : fallback;
  };
  const auto integer = [&](const char* pointer) {
    const Json value = value_at(config, pointer);
    return value.is_number_integer() ? value.get<std::int64_t>() : 0;
  };
  Results run;
  run.name = text(config, "/name", fs::absolute(directory).lexically_normal().filename().string());
  run.scheme = text(config, "/model/position/scheme", text(config, "/model/position", "unknown"));
  run.seed = integer("/seed");
  run.train_length = integer("/train/length");
  run.task = text(config, "/data/task/task", text(config, "/data/task", ""));
  const std::string word = text(status, "/status", "");
  run.status = word == "diverged" || word == "failed" ? word : "unfinished";
  run.reason = text(status, "/reason", fmt::format("{} has no results.json", directory.string()));
  return run;
}

std::vector<Results> load_run_directory(const fs::path& directory) {
  const fs::path file = directory / "results.json";
  return fs::is_regular_file(file) ? load_file(file) : std::vector{unfinished_run(directory)};
}

std::vector<Results> load_directory(const fs::path& directory) {
  std::vector<fs::path> found;
  if (!fs::is_regular_file(directory / "results.json")) {
    for (auto entry = fs::recursive_directory_iterator(directory); entry != fs::recursive_directory_iterator(); ++entry) {
      if (!entry->is_directory() || !is_run_directory(entry->path())) continue;
      found.push_back(entry->path());
      entry.disable_recursion_pending();
    }
  }
  if (found.empty() && is_run_directory(directory)) found.push_back(directory);
  if (found.empty())
    throw DataError(fmt::format("{}: no run here (no results.json or config.json in it or below it)", directory.string()));
  std::ranges::sort(found);
  std::vector<Results> runs;
  for (const fs::path& path : found) std::ranges::move(load_run_directory(path), std::back_inserter(runs));
  return runs;
}

}  // namespace

std::vector<Results> load_results(const std::filesystem::path& path) {
  try {
    return fs::is_directory(path) ? load_directory(path) : load_file(path);
  } catch (const fs::filesystem_error& error) {
    throw IoError(error.what());
  }
}

}  // namespace posenc
