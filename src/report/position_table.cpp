#include "report/position_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "report/rows.h"

namespace posenc {
namespace {

using Place = std::pair<std::int64_t, std::int64_t>;  // from, to
using RowKey = std::pair<std::string, std::string>;   // label, extension

/// The buckets of one table.
struct Buckets {
  Setting setting;  // its protocol stays empty: these windows are their own protocol
  std::int64_t length = 0;
  std::set<Place> places;
  std::vector<RowKey> rows;
  std::map<std::pair<RowKey, Place>, std::vector<PositionBucket>> samples;
  std::map<RowKey, std::set<std::int64_t>> seeds;

  void add(const RowKey& key, std::int64_t seed, const PositionBucket& bucket) {
    if (std::ranges::find(rows, key) == rows.end()) rows.push_back(key);
    places.insert({bucket.from, bucket.to});
    samples[{key, {bucket.from, bucket.to}}].push_back(bucket);
    seeds[key].insert(seed);
  }
};

bool has_number(const PositionBucket& bucket) { return bucket.nll && std::isfinite(*bucket.nll); }

std::string place_text(const Place& place) {
  return place.second == place.first + 1 ? std::to_string(place.first) : fmt::format("{}-{}", place.first, place.second - 1);
}

std::string bucket_text(const std::vector<PositionBucket>& samples) {
  double sum = 0;
  for (const PositionBucket& bucket : samples) {
    if (!has_number(bucket)) return "failed";
    sum += *bucket.nll;
  }
  return samples.empty() ? "not run" : short_number(sum / static_cast<double>(samples.size()));
}

std::string notes_on_seeds(const Buckets& buckets) {
  std::vector<std::string> parts;
  for (const RowKey& key : buckets.rows) {
    parts.push_back(
        fmt::format("{}{} {}", key.first, key.second == "none" ? "" : " + " + key.second, buckets.seeds.at(key).size()));
  }
  return fmt::format("Mean over seeds; their number: {}.", fmt::join(parts, ", "));
}

std::string note_on_errors(const Buckets& buckets) {
  double most = -1;
  for (const auto& [key, samples] : buckets.samples) {
    for (const PositionBucket& bucket : samples)
      most = std::max(most, bucket.stderr_ && std::isfinite(*bucket.stderr_) ? *bucket.stderr_ : -1);
  }
  return most < 0 ? "No standard errors recorded."
                  : fmt::format("Standard error over the windows of one seed: at most {} nats.", short_number(most));
}

Table to_table(const Buckets& buckets) {
  const Setting& setting = buckets.setting;
  Table table{fmt::format("NLL by offset in windows of {}, nats per {}, trained at {}", buckets.length, setting.unit,
                          setting.train_length),
              {},
              {},
              {},
              {}};
  table.header = {"scheme"};
  table.align = {Align::kLeft};
  for (const Place& place : buckets.places) table.header.push_back(place_text(place));
  for (const RowKey& key : buckets.rows) {
    std::vector<std::string> line = {key.second == "none" ? key.first : key.first + " + " + key.second};
    for (const Place& place : buckets.places) {
      const auto found = buckets.samples.find({key, place});
      line.push_back(bucket_text(found == buckets.samples.end() ? std::vector<PositionBucket>{} : found->second));
    }
    table.rows.push_back(std::move(line));
  }
  table.notes = {fmt::format("Column a-b: the targets at offsets a to b of their window. Split: {}. Protocol hash: {}.",
                             setting.split.empty() ? "not recorded" : setting.split,
                             setting.protocol_hash.empty() ? "not recorded" : setting.protocol_hash),
                 notes_on_seeds(buckets), note_on_errors(buckets)};
  return table;
}

}  // namespace

std::vector<Table> position_tables(const std::vector<Results>& runs) {
  const std::vector<std::string> labels = row_labels(runs);
  const auto setting_of = [](const Results& run) {
    return Setting{run.train_length, "", run.unit, run.split, run.protocol_hash};
  };
  std::map<Setting, Buckets> tables;
  for (const Results& run : runs) {
    for (const PositionBucket& bucket : run.by_position) {
      Buckets& table = tables[setting_of(run)];
      table.setting = setting_of(run);
      table.length = std::max(table.length, bucket.length);
    }
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const PositionBucket& bucket : runs[i].by_position) {
      Buckets& table = tables.at(setting_of(runs[i]));
      if (bucket.length == table.length) table.add({labels[i], bucket.extension}, runs[i].seed, bucket);
    }
  }
  std::vector<Table> out;
  for (const auto& [setting, buckets] : tables) out.push_back(to_table(buckets));
  return out;
}

}  // namespace posenc
