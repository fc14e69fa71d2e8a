#include "data/config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/corpora.h"

namespace posenc {
namespace {

using Paths = DataConfig::Paths;

constexpr std::array<std::pair<const char*, std::string Paths::*>, 3> kParts = {
    {{"train", &Paths::train}, {"valid", &Paths::valid}, {"test", &Paths::test}}};

bool read_path(const Json& j, std::string& out, const Reader& r) {
  if (!Codec<std::string>::read(j, out, {}, r)) return false;
  if (!out.empty()) return true;
  r.problem("\"\" is no file name; give one, or leave `path` out to use `corpus`");
  return false;
}

bool read_parts(const Json& j, Paths& out, const Reader& r) {
  const std::size_t before = r.problem_count();
  for (const auto& [key, value] : j.items()) {
    if (key != "train" && key != "valid" && key != "test") {
      schema_detail::unknown_key(j, key, {"train", "valid", "test"}, r);
    }
  }
  for (const auto& [key, member] : kParts) {
    if (j.contains(key)) {
      read_path(j[key], out.*member, r.at(key));
    } else {
      r.problem("missing key \"" + std::string(key) + "\": give train, valid and test, or one file name to split 90/5/5");
    }
  }
  return r.problem_count() == before;
}

void check_text(const DataConfig& d, const Reader& r) {
  const auto only_task = [&](bool given, const char* key) {
    if (given) r.problem(key, "belongs to a task; add \"kind\": \"task\", or leave it out");
  };
  only_task(d.task.has_value(), "task");
  only_task(d.train_lengths.has_value(), "train_lengths");
  only_task(d.test_lengths.has_value(), "test_lengths");
  only_task(d.examples.has_value(), "examples");
  only_task(d.depths.has_value(), "depths");
}

void check_task_lengths(const DataConfig& d, const Task& task, const Reader& r) {
  const auto check_length = [&](const char* key, std::size_t at, std::int64_t length) {
    const std::string misfit = task.misfit(length);
    if (!misfit.empty()) r.at(key).problem(std::to_string(at), misfit + " (" + d.task->label() + ")");
  };
  const std::vector<std::int64_t> train = d.train_lengths.value_or(std::vector<std::int64_t>{});
  if (train.size() != 2 || train[0] > train[1]) {
    r.problem("train_lengths", "needs the shortest and the longest length of training, such as [1, 20]");
  } else {
    for (const std::size_t end : {0, 1}) check_length("train_lengths", end, train[end]);
  }
  if (!d.test_lengths) return;
  const std::vector<std::int64_t>& test = *d.test_lengths;
  if (test.empty()) r.problem("test_lengths", "needs at least one length");
  for (std::size_t i = 0; i < test.size(); ++i) {
    check_length("test_lengths", i, test[i]);
    if (std::find(test.begin(), test.begin() + static_cast<std::ptrdiff_t>(i), test[i]) !=
        test.begin() + static_cast<std::ptrdiff_t>(i))
      r.at("test_lengths").problem(std::to_string(i), "is given twice");
  }
}

void check_task(const DataConfig& d, const Reader& r) {
  if (d.path.given()) r.problem("path", "belongs to text; a task makes its own");
  if (!d.task) return r.problem("task", "missing: name a task, such as \"copy\" (`posenc schemes` lists them)");
  const auto task = make_task(*d.task);
  check_task_lengths(d, *task, r);
  if (!d.depths) return;
  if (!task->has_depth()) r.problem("depths", d.task->name + " hides nothing; leave it out");
  if (d.depths->empty()) r.problem("depths", "needs at least one depth");
  std::vector<double> sorted = *d.depths;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) r.problem("depths", "has a depth twice");
}

}  // namespace

bool Codec<Paths>::read(const Json& j, Paths& out, const FieldRule&, const Reader& r) {
  Paths paths;
  if (!j.is_null() && !(j.is_object() ? read_parts(j, paths, r) : read_path(j, paths.all, r))) return false;
  out = std::move(paths);
  return true;
}

Json Codec<Paths>::write(const Paths& paths) {
  if (!paths.given()) return nullptr;
  if (!paths.all.empty()) return paths.all;
  return {{"train", paths.train}, {"valid", paths.valid}, {"test", paths.test}};
}

Json Codec<Paths>::describe(const FieldRule&) {
  const Json file = {{"type", "string"}, {"minLength", 1}};
  const Json files = {{"type", "object"},
                      {"properties", {{"train", file}, {"valid", file}, {"test", file}}},
                      {"required", {"train", "valid", "test"}},
                      {"additionalProperties", false}};
  const Json none = {{"type", "null"}};
  return {{"anyOf", Json::array({file, files, none})}};
}

template <>
const Schema<DataConfig>& schema<DataConfig>() {
  static const Schema<DataConfig> table =
      Schema<DataConfig>("data")
          .field("kind", &DataConfig::kind, "what to learn from: text, or examples of a task that are made as needed")
          .choices({"text", "task"})
          .field("corpus", &DataConfig::corpus,
                 "text known by name, installed by scripts/fetch_corpora; ignored when `path` is given")
          .choices(corpus_names())
          .field("path", &DataConfig::path,
                 "your own text instead of a corpus, relative to the working directory: one file, split 90/5/5 by position, or "
                 "{train, valid, test}; wins over `corpus`")
          .field("tokenizer", &DataConfig::tokenizer,
                 "byte: 256 tokens, any file; char: one token per Unicode code point of the text; ids: the text is token ids")
          .choices({"byte", "char", "ids"})
          .field("task", &DataConfig::task, "task: which one")
          .field("train_lengths", &DataConfig::train_lengths,
                 "task: shortest and longest length of training, in what the task counts (`posenc schemes`)")
          .range(1, 1 << 20)
          .field("test_lengths", &DataConfig::test_lengths,
                 "task: lengths of the tests; null: half, once, one and a half times and twice the longest of training")
          .range(1, 1 << 20)
          .field("examples", &DataConfig::examples,
                 "task: different questions for each test length (and depth), fewer where there are not as many; null: 512")
          .range(1, 1 << 20)
          .field("depths", &DataConfig::depths,
                 "task: where what is asked for is hidden in tests, from 0 (start) to 1 (end); null: 0, 0.25, 0.5, 0.75, 1")
          .range(0, 1)
          .check([](const DataConfig& d, const Reader& r) { d.is_task() ? check_task(d, r) : check_text(d, r); });
  return table;
}

void DataConfig::resolve() {
  if (!is_task()) return;
  const auto made = make_task(*task);
  if (!test_lengths) {
    const std::int64_t longest = train_lengths->back();
    test_lengths.emplace();
    for (const std::int64_t length : {longest / 2, longest, longest * 3 / 2, longest * 2}) {
      const bool given = std::find(test_lengths->begin(), test_lengths->end(), length) != test_lengths->end();
      if (made->misfit(length).empty() && !given) test_lengths->push_back(length);
    }
  }
  if (!examples) examples = 512;
  if (!depths && made->has_depth()) depths = {0, 0.25, 0.5, 0.75, 1};
}

std::vector<std::int64_t> trained_lengths(const DataConfig& config) {
  const auto task = make_task(*config.task);
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = config.train_lengths->front(); length <= config.train_lengths->back(); ++length) {
    if (task->misfit(length).empty()) lengths.push_back(length);
  }
  return lengths;
}

std::int64_t task_inputs(const Task& task, const std::vector<std::int64_t>& lengths) {
  std::int64_t most = 0;
  for (const std::int64_t length : lengths) most = std::max(most, task.longest(length));
  return most + 2;  // the start, and the mark before the answer
}

}  // namespace posenc
