#include "core/schema.h"

#include <array>
#include <charconv>
#include <cmath>

namespace posenc {
namespace {

constexpr double kExactIntegers = 0x1p53;  // below this every integer is a double of its own

/// The shortest text that reads back as `value`, whole numbers without exponent; the same in every locale.
std::string show(double value) {
  std::array<char, 32> text{};
  const bool whole = value == std::trunc(value) && std::abs(value) < kExactIntegers;
  const auto end = whole ? std::to_chars(text.begin(), text.end(), static_cast<std::int64_t>(value)).ptr
                         : std::to_chars(text.begin(), text.end(), value).ptr;
  return {text.data(), end};
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : " (did you mean \"" + nearest + "\"?)";
}

bool wrong_type(const Json& j, const std::string& expected, const Reader& r, const std::string& remedy = "") {
  r.problem(brief(j) + " is not " + expected + remedy);
  return false;
}

/// The remedy for "64" in place of 64.
std::string unquoted(const Json& j) {
  const auto* text = j.get_ptr<const std::string*>();
  if (!text) return "";
  const Json bare = Json::parse(*text, nullptr, false);
  return bare.is_number() || bare.is_boolean() ? " (write " + *text + " without quotes)" : "";
}

/// `value` is exact: every int64 and every double is a long double.
bool in_range(const Json& j, long double value, const FieldRule& rule, const Reader& r) {
  const std::size_t before = r.problem_count();
  if (rule.min && value < *rule.min) r.problem(brief(j) + " is below " + show(*rule.min));
  if (rule.max && value > *rule.max) r.problem(brief(j) + " is above " + show(*rule.max));
  if (rule.above && value <= *rule.above) r.problem(brief(j) + " is not greater than " + show(*rule.above));
  return r.problem_count() == before;
}

/// A limit as JSON, whole where it is whole ("minimum": 1).
Json limit(double value) {
  if (value == std::trunc(value) && std::abs(value) < kExactIntegers) return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

Reader Reader::at(const std::string& key) const { return {*document_, *problems_, join_pointer(pointer_, key)}; }

void Reader::problem(const std::string& rule) const { problems_->push_back({document_->where(pointer_), pointer_, rule}); }

void Reader::problem(const std::string& key, const std::string& rule) const { at(key).problem(rule); }

std::string FieldRule::text() const {
  std::vector<std::string> parts;
  if (min) parts.push_back("≥ " + show(*min));
  if (above) parts.push_back("> " + show(*above));
  if (max) parts.push_back("≤ " + show(*max));
  if (!choices.empty()) parts.push_back("one of " + list(choices));
  return list(parts);
}

namespace schema_detail {

bool read_bool(const Json& j, bool& out, const Reader& r) {
  if (!j.is_boolean()) return wrong_type(j, "true or false", r, unquoted(j));
  out = j.get<bool>();
  return true;
}

bool read_integer(const Json& j, std::int64_t& out, const FieldRule& rule, const Reader& r) {
  if (!j.is_number()) return wrong_type(j, "an integer", r, unquoted(j));
  if (j.is_number_float()) {  // 64.0 and 1e3 are integers to the one who writes them
    const double value = j.get<double>();
    if (value != std::trunc(value)) return wrong_type(j, "an integer", r);
    if (!(std::abs(value) < kExactIntegers)) {
      r.problem(brief(j) + " is too large for an integer in this notation (exact below 2^53): write all its digits");
      return false;
    }
  } else if (j.is_number_unsigned() && j.get<std::uint64_t>() > INT64_MAX) {
    r.problem(brief(j) + " is above " + std::to_string(INT64_MAX) + ", the largest integer");
    return false;
  }
  const auto value = j.get<std::int64_t>();
  if (!in_range(j, static_cast<long double>(value), rule, r)) return false;
  out = value;
  return true;
}

bool read_number(const Json& j, double& out, const FieldRule& rule, const Reader& r) {
  if (!j.is_number() || !std::isfinite(j.get<double>())) return wrong_type(j, "a finite number", r, unquoted(j));
  const auto value = j.get<double>();
  if (!in_range(j, value, rule, r)) return false;
  out = value;
  return true;
}

bool read_string(const Json& j, std::string& out, const FieldRule& rule, const Reader& r) {
  if (!j.is_string()) return wrong_type(j, "a string", r, j.is_primitive() && !j.is_null() ? " (write it in double quotes)" : "");
  const auto value = j.get<std::string>();
  bool known = rule.choices.empty();
  for (const std::string& choice : rule.choices) known = known || choice == value;
  if (!known) {
    r.problem(brief(j) + " is not one of " + list(rule.choices) + did_you_mean(value, rule.choices));
    return false;
  }
  out = value;
  return true;
}

bool is_object(const Json& j, const Reader& r) { return j.is_object() || wrong_type(j, "an object", r); }

bool is_array(const Json& j, const Reader& r) { return j.is_array() || wrong_type(j, "an array", r); }

void unknown_key(const Json&, const std::string& key, const std::vector<std::string>& names, const Reader& r) {
  std::string hint = did_you_mean(key, names);
  if (hint.empty()) hint = names.empty() ? " (there are no keys to set here)" : " (valid keys: " + list(names) + ")";
  r.problem(key, "unknown key " + brief(key) + hint);
}

Json describe_scalar(const char* type, const FieldRule& rule) {
  Json description = {{"type", type}};
  if (rule.min) description["minimum"] = limit(*rule.min);
  if (rule.max) description["maximum"] = limit(*rule.max);
  if (rule.above) description["exclusiveMinimum"] = limit(*rule.above);
  if (!rule.choices.empty()) description["enum"] = rule.choices;
  return description;
}

std::string show_default(const Json& value) { return dump_json_line(value); }

std::string show_value(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return dump_json_line(value);
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.begin(), text.end(), value.get<double>()).ptr};
}

}  // namespace schema_detail
}  // namespace posenc
