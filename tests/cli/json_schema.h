#pragma once
// As much of JSON Schema (draft 2020-12) as `posenc schema` uses, written from the specification, to hold its output against
// configs.

#include <algorithm>
#include <string>
#include <vector>

#include "core/json.h"

namespace posenc {

inline bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer")
    return value.is_number_integer() || (value.is_number() && value.get<double>() == static_cast<double>(value.get<long long>()));
  return false;
}

/// Keywords that the checker knows; another one would be passed over in silence.
inline bool is_known_keyword(const std::string& key) {
  const std::vector<std::string> known = {
      "$schema",  "$defs", "$ref",    "title",   "description",      "default",  "type",       "enum",
      "anyOf",    "items", "minimum", "maximum", "exclusiveMinimum", "required", "properties", "additionalProperties",
      "minLength"};
  return std::find(known.begin(), known.end(), key) != known.end();
}

/// Where and why `value` does not match; empty when it does.
inline std::vector<std::string> schema_violations(const Json& schema, const Json& value, const std::string& at = "",
                                                  const Json* document = nullptr) {
  std::vector<std::string> wrong;
  const Json& root = document ? *document : schema;
  if (schema.is_boolean()) return schema.get<bool>() ? wrong : std::vector{at + ": nothing is allowed here"};
  for (const auto& [key, unused] : schema.items()) {
    if (!is_known_keyword(key)) wrong.push_back(at + ": keyword " + key + " is unknown to this checker");
  }
  if (schema.contains("$ref")) {
    const Json::json_pointer place(schema["$ref"].get<std::string>().substr(1));  // "#/$defs/…"
    if (!root.contains(place)) wrong.push_back(at + ": nothing at " + place.to_string());
    else wrong = schema_violations(root[place], value, at, &root);
  }
  if (schema.contains("type")) {
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    if (std::none_of(types.begin(), types.end(), [&](const Json& type) { return has_type(value, type); }))
      wrong.push_back(at + ": wrong type");
  }
  if (schema.contains("enum") && std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    wrong.push_back(at + ": not in enum");
  if (value.is_number()) {
    const double number = value.get<double>();
    if (schema.contains("minimum") && number < schema["minimum"].get<double>()) wrong.push_back(at + ": below minimum");
    if (schema.contains("maximum") && number > schema["maximum"].get<double>()) wrong.push_back(at + ": above maximum");
    if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>())
      wrong.push_back(at + ": not above exclusiveMinimum");
  }
  if (value.is_string() && schema.contains("minLength") &&
      value.get<std::string>().size() < schema["minLength"].get<std::size_t>())
    wrong.push_back(at + ": short");
  if (schema.contains("anyOf")) {
    const auto fits = [&](const Json& option) { return schema_violations(option, value, at, &root).empty(); };
    if (std::none_of(schema["anyOf"].begin(), schema["anyOf"].end(), fits)) wrong.push_back(at + ": matches nothing of anyOf");
  }
  if (value.is_array() && schema.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      for (const std::string& one : schema_violations(schema["items"], value[i], at + "/" + std::to_string(i), &root))
        wrong.push_back(one);
    }
  }
  if (!value.is_object()) return wrong;
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) wrong.push_back(at + ": lacks " + name.get<std::string>());
  }
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [key, member] : value.items()) {
    const Json rule = properties.contains(key) ? properties[key] : schema.value("additionalProperties", Json(true));
    for (const std::string& one : schema_violations(rule, member, at + "/" + key, &root)) wrong.push_back(one);
  }
  return wrong;
}

}  // namespace posenc
