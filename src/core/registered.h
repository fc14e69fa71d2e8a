#pragma once
// Things chosen by name with parameters of their own (schemes, extensions, tasks), as a config writes them: "rope", or
// {"scheme": "rope", "base": 10000}. The Info of each kind derives from RegisteredInfo.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/schema.h"

namespace posenc {

/// A choice as read: canonical name, and parameters with every default written out.
struct Registered {
  std::string name;
  Json parameters = Json::object();
};

/// What every registered thing says of itself.
struct RegisteredInfo {
  std::string name;  ///< config key = file = test = row of every table
  std::vector<std::string> aliases;
  std::string title, paper;

  // Filled in by take_parameters:
  std::function<std::vector<FieldDoc>()> parameters;
  std::function<Json()> describe;                           ///< JSON Schema of the parameters
  std::function<Json(const Json&, const Reader&)> resolve;  ///< every default written out; records problems
};

/// Completes `info` from the table of the thing's parameter struct.
template <class Parameters>
void take_parameters(RegisteredInfo& info) {
  info.parameters = [] { return schema<Parameters>().document(); };
  info.describe = [] { return schema<Parameters>().describe(); };
  info.resolve = [](const Json& given, const Reader& reader) {
    Parameters p{};
    schema<Parameters>().read(given, p, reader);
    return schema<Parameters>().write(p);
  };
}

template <class Info>
const Info* find_registered(const std::vector<Info>& all, const std::string& name_or_alias) {
  for (const Info& info : all) {
    if (info.name == name_or_alias) return &info;
    if (std::find(info.aliases.begin(), info.aliases.end(), name_or_alias) != info.aliases.end()) return &info;
  }
  return nullptr;
}

/// Records a problem that lists what there is and the nearest spelling.
template <class Info>
void unknown_name(const std::vector<Info>& all, const std::string& kind, const std::string& name, const Reader& reader) {
  std::vector<std::string> spellings;
  std::string list;
  for (const Info& info : all) {
    spellings.push_back(info.name);
    spellings.insert(spellings.end(), info.aliases.begin(), info.aliases.end());
    list += (list.empty() ? "" : ", ") + info.name;
  }
  const std::string nearest = nearest_name(name, spellings);
  reader.problem("no " + kind + " is called \"" + name + "\"" + (nearest.empty() ? "" : " (did you mean \"" + nearest + "\"?)") +
                 "; there are " + list);
}

/// `key` is the member that holds the name ("scheme"), `kind` what messages call the thing.
template <class Info>
bool read_registered(const std::vector<Info>& all, const std::string& key, const std::string& kind, const Json& j,
                     Registered& out, const Reader& reader) {
  const std::size_t before = reader.problem_count();
  Json parameters = Json::object();
  Json name = j;
  if (j.is_object()) {
    parameters = j;
    parameters.erase(key);
    name = j.contains(key) ? j[key] : Json();
  }
  if (!name.is_string()) {
    reader.problem("expected the name of a " + kind + ", or an object such as {\"" + key + "\": \"" + all.front().name + "\"}");
    return false;
  }
  const Info* info = find_registered(all, name.get<std::string>());
  if (!info) return unknown_name(all, kind, name.get<std::string>(), reader), false;
  out = {info->name, info->resolve(parameters, reader)};
  return reader.problem_count() == before;
}

inline Json write_registered(const std::string& key, const Registered& value) {
  Json object = {{key, value.name}};
  object.update(value.parameters);
  return object;
}

/// The parameters that differ from their defaults, as tables show them: {"factor=4", "align=scale"}.
template <class Info>
std::vector<std::string> changed_parameters(const Info& info, const Registered& choice) {
  std::vector<Problem> none;
  const Document empty{Json::object(), "", {}};
  const Json defaults = info.resolve(empty.root, Reader(empty, none));
  std::vector<std::string> changed;
  for (const auto& [key, value] : choice.parameters.items()) {
    if (value != defaults.at(key)) changed.push_back(key + "=" + schema_detail::show_value(value));
  }
  return changed;
}

/// What tables show: "pi", or "pi(factor=4)" when parameters differ from the defaults. The choice must be registered.
template <class Info>
std::string registered_label(const std::vector<Info>& all, const Registered& choice) {
  const Info* info = find_registered(all, choice.name);
  POSENC_CHECK(info, "nothing is called " + choice.name);
  std::string changed;
  for (const std::string& part : changed_parameters(*info, choice)) changed += (changed.empty() ? "" : ",") + part;
  return changed.empty() ? choice.name : choice.name + "(" + changed + ")";
}

/// JSON Schema: any of the names, or one object form per thing.
/// `more` are properties that every object form has besides the thing's own.
template <class Info>
Json describe_registered(const std::vector<Info>& all, const std::string& key, const Json& more = Json::object(),
                         bool key_required = true) {
  Json options = Json::array({Json::object()});
  Json every_name = Json::array();
  for (const Info& info : all) {
    Json names = Json::array({info.name});
    for (const std::string& alias : info.aliases) names.push_back(alias);
    every_name.insert(every_name.end(), names.begin(), names.end());
    Json object = info.describe();
    Json properties = {{key, {{"enum", names}, {"description", info.title + " (" + info.paper + ")"}}}};
    properties.update(object["properties"]);
    object["title"] = info.title;
    properties.update(more);
    object["properties"] = std::move(properties);
    if (key_required) object["required"].push_back(key);  // beside the thing's own
    options.push_back(std::move(object));
  }
  options[0] = {{"enum", std::move(every_name)}};
  return {{"anyOf", std::move(options)}};
}

}  // namespace posenc
