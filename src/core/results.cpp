#include "core/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/statistics.h"

namespace posenc {
namespace {

constexpr const char* kSchema = "posenc.results/1";

std::optional<double> finite(std::optional<double> value) { return value && std::isfinite(*value) ? value : std::nullopt; }

Json number(std::optional<double> value) { return finite(value) ? Json(*value) : Json(nullptr); }

Json cell_to_json(const Cell& given, const std::string& unit) {
  const Cell cell = settled(given, unit);
  Json json = {{"extension", cell.extension}, {"length", cell.length},
               {"protocol", cell.protocol},   {"window", cell.window},
               {"stride", cell.stride},       {"targets", cell.targets},
               {"nll", number(cell.nll)},     {"stderr", number(cell.stderr_)},
               {"ppl", number(cell.ppl)},     {"bits_per_byte", number(cell.bits_per_byte)},
               {"status", cell.status}};
  if (!cell.reason.empty()) json["reason"] = cell.reason;
  const bool usable = std::ranges::all_of(cell.window_nll, [](double nll) { return std::isfinite(nll); });
  if (!cell.window_nll.empty() && usable) json["window_nll"] = cell.window_nll;
  return json;
}

Json bucket_to_json(const PositionBucket& bucket) {
  Json json = {{"extension", bucket.extension},
               {"length", bucket.length},
               {"from", bucket.from},
               {"to", bucket.to},
               {"targets", bucket.targets},
               {"nll", number(bucket.nll)},
               {"stderr", number(bucket.stderr_)}};
  if (!finite(bucket.nll)) json["reason"] = "nll is not a finite number";
  return json;
}

Json accuracy_to_json(const Accuracy& given) {
  const Accuracy accuracy = settled(given);
  Json json = {{"extension", accuracy.extension}, {"length", accuracy.length}};
  if (accuracy.depth) json["depth"] = *accuracy.depth;
  json.update({{"examples", accuracy.examples},
               {"exact_match", number(accuracy.exact_match)},
               {"exact_match_low", number(accuracy.low)},
               {"exact_match_high", number(accuracy.high)},
               {"token_accuracy", number(accuracy.token_accuracy)},
               {"token_accuracy_stderr", number(accuracy.token_stderr)},
               {"status", accuracy.status}});
  if (!accuracy.reason.empty()) json["reason"] = accuracy.reason;
  return json;
}

/// An object of a results file; every complaint names the file and the JSON pointer.
class Node {
 public:
  Node(const Json& json, const std::string& file, std::string pointer)
      : json_(&json), file_(&file), pointer_(std::move(pointer)) {
    if (!json.is_object()) fail("an object belongs here");
  }

  [[noreturn]] void fail(const std::string& rule) const {
    throw DataError(fmt::format("{}: {}{}", *file_, pointer_.empty() ? "" : pointer_ + ": ", rule));
  }
  bool has(const char* key) const { return json_->contains(key); }
  bool null(const char* key) const { return has(key) && at(key).is_null(); }
  std::string text(const char* key) const {
    if (!has(key) || !at(key).is_string()) fail(fmt::format("\"{}\" must be a string", key));
    return at(key).get<std::string>();
  }
  std::string text(const char* key, const char* fallback) const { return has(key) ? text(key) : fallback; }
  std::int64_t integer(const char* key) const {
    if (!has(key) || !at(key).is_number_integer()) fail(fmt::format("\"{}\" must be an integer", key));
    return at(key).get<std::int64_t>();
  }
  std::int64_t integer(const char* key, std::int64_t fallback) const { return has(key) ? integer(key) : fallback; }
  std::int64_t positive(const char* key) const {
    const std::int64_t value = integer(key);
    if (value < 1) fail(fmt::format("\"{}\" is {}, but must be at least 1", key, value));
    return value;
  }
  std::optional<double> number(const char* key) const {
    if (!has(key) || null(key)) return std::nullopt;
    if (!at(key).is_number()) fail(fmt::format("\"{}\" must be a number or null", key));
    return at(key).get<double>();
  }
  std::vector<double> numbers(const char* key) const {
    std::vector<double> values;
    for (const Json& item : list(key)) {
      if (!item.is_number()) fail(fmt::format("\"{}\" must be a list of numbers", key));
      values.push_back(item.get<double>());
    }
    return values;
  }
  std::vector<std::int64_t> integers(const char* key) const {
    std::vector<std::int64_t> values;
    for (const Json& item : list(key)) {
      if (!item.is_number_integer()) fail(fmt::format("\"{}\" must be a list of integers", key));
      values.push_back(item.get<std::int64_t>());
    }
    return values;
  }
  std::vector<Node> objects(const char* key) const {
    std::vector<Node> nodes;
    for (const Json& item : list(key)) nodes.emplace_back(item, *file_, fmt::format("{}/{}/{}", pointer_, key, nodes.size()));
    return nodes;
  }
  std::string status(std::initializer_list<const char*> words) const {
    const std::string word = text("status", "ok");
    if (std::ranges::find(words, word) == words.end()) fail(fmt::format("\"status\" is \"{}\": unknown to this version", word));
    return word;
  }

 private:
  const Json& at(const char* key) const { return json_->at(key); }
  const Json& list(const char* key) const {
    static const Json empty = Json::array();
    if (!has(key)) return empty;
    if (!at(key).is_array()) fail(fmt::format("\"{}\" must be a list", key));
    return at(key);
  }

  const Json* json_;
  const std::string* file_;
  std::string pointer_;
};

Cell read_cell(const Node& node, const std::string& unit) {
  Cell cell;
  cell.extension = node.text("extension", "none");
  cell.length = node.positive("length");
  cell.protocol = node.text("protocol");
  cell.window = node.integer("window", 0);
  cell.stride = node.integer("stride", 0);
  cell.status = node.status({"ok", "refused", "diverged", "failed"});
  cell.targets = node.integer("targets", 0);
  cell.reason = node.text("reason", "");
  cell.nll = node.number("nll");
  cell.stderr_ = node.number("stderr");
  cell.bits_per_byte = node.number("bits_per_byte");
  cell.window_nll = node.numbers("window_nll");
  cell.ppl = node.number("ppl");
  cell = settled(std::move(cell), unit);
  if (cell.ppl && node.null("ppl")) {
    cell.status = "failed", cell.reason = "ppl is null in the file";
    cell = settled(std::move(cell), unit);
  }
  return cell;
}

Accuracy read_accuracy(const Node& node) {
  Accuracy accuracy;
  accuracy.extension = node.text("extension", "none");
  accuracy.length = node.positive("length");
  accuracy.depth = node.number("depth");
  accuracy.examples = node.integer("examples", 0);
  accuracy.exact_match = node.number("exact_match");
  accuracy.token_accuracy = node.number("token_accuracy");
  accuracy.token_stderr = node.number("token_accuracy_stderr");
  accuracy.status = node.status({"ok", "refused", "diverged", "failed"});
  accuracy.reason = node.text("reason", "");
  return settled(std::move(accuracy));
}

PositionBucket read_bucket(const Node& node) {
  return {node.text("extension", "none"), node.positive("length"), node.integer("from"), node.integer("to"),
          node.integer("targets", 0),     node.number("nll"),      node.number("stderr")};
}

Results read_results(const Node& node) {
  if (node.text("schema") != kSchema)
    node.fail(fmt::format("schema is \"{}\", but this version reads \"{}\"", node.text("schema"), kSchema));
  Results results;
  results.name = node.text("name");
  results.scheme = node.text("scheme");
  results.unit = node.text("unit");
  results.status = node.status({"ok", "diverged", "failed", "unfinished"});
  results.reason = node.text("reason", "");
  results.protocol_hash = node.text("protocol_hash");
  results.split = node.text("split", "");
  results.seed = node.integer("seed");
  results.train_length = node.integer("train_length");
  results.parameters = node.integer("parameters", 0);
  results.train_seconds = node.number("train_seconds");
  results.tokens_per_second = node.number("tokens_per_second");
  for (const Node& item : node.objects("cells")) {
    Cell cell = read_cell(item, results.unit);
    const auto same = std::ranges::find_if(results.cells, [&](const Cell& other) {
      return std::tie(other.extension, other.length, other.protocol) == std::tie(cell.extension, cell.length, cell.protocol);
    });
    if (same == results.cells.end()) {
      results.cells.push_back(std::move(cell));
    } else if (same->nll != cell.nll || same->status != cell.status) {  // a length evaluated twice gives one number
      item.fail(fmt::format("a second cell of extension {}, length {}, protocol {}, with another number", cell.extension,
                            cell.length, cell.protocol));
    }
  }
  for (const Node& item : node.objects("by_position")) results.by_position.push_back(read_bucket(item));
  results.task = node.text("task", "");
  results.task_lengths = node.integers("train_lengths");
  for (const Node& item : node.objects("accuracy")) results.accuracy.push_back(read_accuracy(item));
  return results;
}

}  // namespace

Cell settled(Cell cell, const std::string& unit) {
  if (cell.status == "ok" && !finite(cell.nll)) cell.status = "failed", cell.reason = "nll is not a finite number";
  if (cell.status != "ok") {
    cell.nll = cell.stderr_ = cell.ppl = cell.bits_per_byte = std::nullopt;
    cell.window_nll.clear();
    if (cell.reason.empty()) cell.reason = "no reason recorded";
    return cell;
  }
  cell.stderr_ = finite(cell.stderr_);
  if (!finite(cell.ppl)) cell.ppl = perplexity(*cell.nll);
  cell.bits_per_byte = unit == "byte" ? *cell.nll / std::numbers::ln2 : finite(cell.bits_per_byte);
  cell.reason = cell.ppl ? "" : "perplexity overflows";
  return cell;
}

Accuracy settled(Accuracy accuracy) {
  const bool share = accuracy.exact_match && *accuracy.exact_match >= 0 && *accuracy.exact_match <= 1 && accuracy.examples > 0;
  if (accuracy.status == "ok" && !share) accuracy.status = "failed", accuracy.reason = "exact_match is no share of examples";
  if (accuracy.status != "ok") {
    accuracy.exact_match = accuracy.low = accuracy.high = accuracy.token_accuracy = accuracy.token_stderr = std::nullopt;
    if (accuracy.reason.empty()) accuracy.reason = "no reason recorded";
    return accuracy;
  }
  const Interval interval = wilson_interval(*accuracy.exact_match, accuracy.examples);
  accuracy.low = interval.low, accuracy.high = interval.high;
  accuracy.token_accuracy = finite(accuracy.token_accuracy);
  accuracy.token_stderr = finite(accuracy.token_stderr);
  return accuracy;
}

Json results_to_json(const Results& results) {
  Json json = {{"schema", kSchema},
               {"name", results.name},
               {"scheme", results.scheme},
               {"seed", results.seed},
               {"train_length", results.train_length},
               {"unit", results.unit},
               {"split", results.split},
               {"parameters", results.parameters},
               {"status", results.status}};
  if (!results.reason.empty()) json["reason"] = results.reason;
  json["protocol_hash"] = results.protocol_hash;
  json["train_seconds"] = number(results.train_seconds);
  json["tokens_per_second"] = number(results.tokens_per_second);
  json["cells"] = Json::array();
  for (const Cell& cell : results.cells) json["cells"].push_back(cell_to_json(cell, results.unit));
  json["by_position"] = Json::array();
  for (const PositionBucket& bucket : results.by_position) json["by_position"].push_back(bucket_to_json(bucket));
  if (results.task.empty()) return json;
  json["task"] = results.task;
  json["train_lengths"] = results.task_lengths;
  json["accuracy"] = Json::array();
  for (const Accuracy& accuracy : results.accuracy) json["accuracy"].push_back(accuracy_to_json(accuracy));
  return json;
}

Results results_from_json(const Json& json, const std::string& name) { return read_results(Node(json, name, "")); }

}  // namespace posenc
