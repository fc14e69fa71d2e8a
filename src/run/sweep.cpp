#include "run/sweep.h"

#include <algorithm>
#include <map>

#include "core/files.h"

namespace posenc {

template <>
const Schema<SweepConfig>& schema<SweepConfig>() {
  static const Schema<SweepConfig> table =
      Schema<SweepConfig>("posenc sweep")
          .field("name", &SweepConfig::name, "name of the sweep; default: the file's stem")
          .field("base", &SweepConfig::base, "experiment to vary: an object, or a file relative to this one")
          .required()
          .field("vary", &SweepConfig::vary, "JSON pointer -> list of values; all combinations")
          .field("zip", &SweepConfig::zip, "JSON pointer -> list of values; lists of one length that advance together")
          .ignore("$schema")
          .check([](const SweepConfig& s, const Reader& r) {
            if (!s.base.is_object() && !s.base.is_string())
              r.problem("base", "expected an experiment object or the name of a file");
            std::size_t length = 0;
            for (const char* section : {"vary", "zip"}) {
              const Json& lists = std::string(section) == "vary" ? s.vary : s.zip;
              if (!lists.is_object()) {
                r.problem(section, "expected an object of JSON pointer -> list of values");
                continue;
              }
              for (const auto& [pointer, values] : lists.items()) {
                const Reader place = r.at(section).at(pointer);
                if (pointer.empty() || pointer.front() != '/') place.problem("a key is a JSON pointer such as /train/length");
                if (!values.is_array() || values.empty()) {
                  place.problem("expected a list of at least one value");
                  continue;
                }
                if (std::string(section) == "zip") {
                  if (length != 0 && values.size() != length) {
                    place.problem("lists of zip have " + std::to_string(length) + " and " + std::to_string(values.size()) +
                                  " values");
                  }
                  length = values.size();
                  continue;
                }
                for (std::size_t i = 0; i < values.size(); ++i) {
                  if (std::count(values.begin(), values.end(), values[i]) > 1) {
                    place.problem(std::to_string(i),
                                  "the value " + dump_json_line(values[i]) + " is given twice; repeat runs by varying /seed");
                    break;
                  }
                }
              }
            }
          });
  return table;
}

namespace {

/// One factor of the grid: for each of its steps, the values it sets.
using Setting = std::pair<std::string, Json>;
using Factor = std::vector<std::vector<Setting>>;

std::vector<Factor> factors(const SweepConfig& config) {
  std::vector<Factor> all;
  for (const auto& [pointer, values] : config.vary.items()) {
    Factor factor;
    for (const Json& value : values) factor.push_back({{pointer, value}});
    all.push_back(std::move(factor));
  }
  if (config.zip.empty()) return all;
  Factor together(config.zip.begin()->size());
  for (const auto& [pointer, values] : config.zip.items()) {
    for (std::size_t i = 0; i < values.size(); ++i) together[i].push_back({pointer, values[i]});
  }
  all.push_back(std::move(together));
  return all;
}

std::string show(const std::vector<Setting>& settings) {
  std::string text;
  for (const auto& [pointer, value] : settings) {
    const std::string shown = value.is_string() ? value.get<std::string>() : dump_json_line(value);
    text += (text.empty() ? "" : " ") + pointer.substr(pointer.rfind('/') + 1) + "=" + shown;
  }
  return text;
}

SweepCell make_cell(const Document& base, const std::vector<Setting>& settings) {
  SweepCell cell;
  cell.values = show(settings);
  Document document = base;
  try {
    for (const auto& [pointer, value] : settings) apply_override(document, pointer + "=" + dump_json_line(value));
    document.root.erase("name");
    Experiment e = read_experiment(document, "cell");
    const std::string& model = e.model.kind == "transformer" ? e.model.position.name : e.model.kind;
    cell.name = (e.data.is_task() ? e.data.task->name + "-" : "") + model + "-" + std::to_string(e.train.length) + "-s" +
                std::to_string(e.seed) + "-" + experiment_hash(e).substr(0, 8);
    e.name = cell.name;
    cell.experiment = std::move(e);
  } catch (const ConfigError& error) {
    cell.name = "invalid-" + sha256(dump_json_line(document.root)).substr(0, 8);
    cell.error = error.what();
    cell.given = document.root;
  }
  return cell;
}

Document base_document(const SweepConfig& config, const Document& file, const fs::path& path) {
  if (config.base.is_object()) return {config.base, file.name + " (base)", {}};
  return load_json(path.parent_path() / config.base.get<std::string>());
}

/// Two spellings of one config ("rope" and "rotary") would share a directory.
void require_distinct(const Sweep& sweep, const fs::path& path) {
  std::map<std::string, std::string> values_of;
  for (const SweepCell& cell : sweep.cells) {
    const auto [other, is_new] = values_of.emplace(cell.name, cell.values);
    if (!is_new) throw ConfigError(path.string() + ": \"" + other->second + "\" and \"" + cell.values + "\" are the same run");
  }
}

}  // namespace

Sweep load_sweep(const fs::path& path) {
  const Document file = load_json(path);
  SweepConfig config = read_document<SweepConfig>(file);
  Sweep sweep{config.name.empty() ? path.stem().string() : config.name, {}};
  require_run_name(sweep.name);
  const Document base = base_document(config, file, path);
  const std::vector<Factor> grid = factors(config);
  std::size_t cells = 1;
  for (const Factor& factor : grid) {
    cells *= factor.size();
    if (cells > kMaxCells) throw ConfigError(path.string() + ": more than " + std::to_string(kMaxCells) + " cells");
  }
  for (std::size_t index = 0; index < cells; ++index) {
    std::vector<Setting> settings;
    std::size_t rest = cells, at = index;
    for (const Factor& factor : grid) {  // the last factor varies fastest
      rest /= factor.size();
      const auto& chosen = factor[at / rest];
      settings.insert(settings.end(), chosen.begin(), chosen.end());
      at %= rest;
    }
    sweep.cells.push_back(make_cell(base, settings));
  }
  require_distinct(sweep, path);
  return sweep;
}

}  // namespace posenc
