#pragma once
// One table per config struct. A component keeps an aggregate with in-class defaults and, beside it, one Schema<T> table:
//
//   struct TrainConfig { std::int64_t length = 128; double lr = 1e-3; std::string schedule = "cosine"; };
//
//   template <> const Schema<TrainConfig>& schema<TrainConfig>() {
//     static const Schema<TrainConfig> table = Schema<TrainConfig>("training")
//         .field("length", &TrainConfig::length, "input positions per sequence").range(1, 1 << 20)
//         .field("lr", &TrainConfig::lr, "peak learning rate").above(0)
//         .field("schedule", &TrainConfig::schedule, "learning-rate schedule").choices({"cosine", "constant", "linear"})
//         .check([](const TrainConfig& c, Reader& r) { if (c.lr > 10) r.problem("lr", "…"); });
//     return table;
//   }
//
// Parsing, defaults, unknown-key errors with the nearest name, `posenc schema`, help texts and the resolved config all come from
// that table. Member types: bool, std::int64_t, double, std::string, another struct with a table, std::vector of those, and
// std::optional of those (absent or null ⇒ nullopt). A type that needs its own rule specialises Codec<T> (see below).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace posenc {

/// A place in a document being read: knows its JSON pointer, and collects problems rather than throwing at the first.
class Reader {
 public:
  Reader(const Document& document, std::vector<Problem>& problems, std::string pointer = "")
      : document_(&document), problems_(&problems), pointer_(std::move(pointer)) {}

  /// The reader of a member (or array index) of this value.
  Reader at(const std::string& key) const;
  /// Records a problem at this value, or at its member `key`.
  void problem(const std::string& rule) const;
  void problem(const std::string& key, const std::string& rule) const;
  const std::string& pointer() const { return pointer_; }
  std::size_t problem_count() const { return problems_->size(); }

 private:
  const Document* document_;
  std::vector<Problem>* problems_;
  std::string pointer_;
};

template <class T>
class Schema;

/// The table of T. Specialised beside each config struct.
template <class T>
const Schema<T>& schema();

/// One row of a table as shown to people: `posenc schemes`, `--help` of keys, the README's tables.
struct FieldDoc {
  std::string name, type, default_value, rule, help;
};

/// Limits of one field; checked after the type.
struct FieldRule {
  std::optional<double> min, max, above;  ///< inclusive, inclusive, exclusive
  std::vector<std::string> choices;       ///< for strings (and vectors of strings)
  bool required = false;
  std::string text() const;  ///< "≥ 1, ≤ 64" or "one of a, b"; empty when unlimited
};

/// How a member type is read, written and described. Specialise for a type with a rule of its own.
///   static bool read(const Json&, T&, const FieldRule&, const Reader&)   false ⇒ a problem was recorded
///   static Json write(const T&)
///   static Json describe(const FieldRule&)                               a JSON Schema fragment
///   static std::string type_name()
template <class T, class = void>
struct Codec;

/// A table of fields, in the order people should read them.
template <class T>
class Schema {
 public:
  explicit Schema(std::string title) : title_(std::move(title)) {}

  template <class M>
  Schema& field(std::string name, M T::*member, std::string help) {
    Field f;
    f.name = std::move(name);
    f.help = std::move(help);
    f.read = [member](const Json& j, T& out, const FieldRule& rule, const Reader& r) {
      return Codec<M>::read(j, out.*member, rule, r);
    };
    f.write = [member](const T& in) { return Codec<M>::write(in.*member); };
    f.describe = [](const FieldRule& rule) { return Codec<M>::describe(rule); };
    f.type_name = Codec<M>::type_name();
    fields_.push_back(std::move(f));
    return *this;
  }
  Schema& range(double low, double high) {
    last().rule.min = low, last().rule.max = high;
    return *this;
  }
  Schema& at_least(double low) {
    last().rule.min = low;
    return *this;
  }
  Schema& at_most(double high) {
    last().rule.max = high;
    return *this;
  }
  Schema& above(double low) {
    last().rule.above = low;
    return *this;
  }
  Schema& choices(std::vector<std::string> names) {
    last().rule.choices = std::move(names);
    return *this;
  }
  Schema& required() {
    last().rule.required = true;
    return *this;
  }
  /// A rule over several fields; runs only when every field by itself was right.
  Schema& check(std::function<void(const T&, const Reader&)> rule) {
    checks_.push_back(std::move(rule));
    return *this;
  }
  /// A key that is accepted and has no effect ("$schema").
  Schema& ignore(std::string key) {
    ignored_.push_back(std::move(key));
    return *this;
  }

  /// Reads an object over the defaults in `out`. False when any problem was recorded. Unknown keys name the nearest one.
  bool read(const Json& j, T& out, const Reader& r) const;
  /// Every field, defaults written out.
  Json write(const T& value) const;
  /// The JSON Schema (draft 2020-12) of the object.
  Json describe() const;
  /// Rows for people; `value` supplies the defaults.
  std::vector<FieldDoc> document(const T& value = T{}) const;
  std::vector<std::string> names() const;
  const std::string& title() const { return title_; }

 private:
  struct Field {
    std::string name, help, type_name;
    FieldRule rule;
    std::function<bool(const Json&, T&, const FieldRule&, const Reader&)> read;
    std::function<Json(const T&)> write;
    std::function<Json(const FieldRule&)> describe;
  };
  Field& last() { return fields_.back(); }

  std::string title_;
  std::vector<Field> fields_;
  std::vector<std::function<void(const T&, const Reader&)>> checks_;
  std::vector<std::string> ignored_;
};

/// Reads a whole document into T; throws ConfigError listing every problem.
template <class T>
T read_document(const Document& document) {
  std::vector<Problem> problems;
  T value{};
  schema<T>().read(document.root, value, Reader(document, problems));
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return value;
}

/// Reads JSON that this program wrote or resolved itself (a scheme's parameters, a run's config.json).
template <class T>
T from_json(const Json& json, const std::string& name = "value") {
  return read_document<T>(Document{json, name, {}});
}

namespace schema_detail {
bool read_bool(const Json&, bool&, const Reader&);
bool read_integer(const Json&, std::int64_t&, const FieldRule&, const Reader&);
bool read_number(const Json&, double&, const FieldRule&, const Reader&);
bool read_string(const Json&, std::string&, const FieldRule&, const Reader&);
bool is_object(const Json&, const Reader&);
bool is_array(const Json&, const Reader&);
void unknown_key(const Json&, const std::string& key, const std::vector<std::string>& names, const Reader&);
Json describe_scalar(const char* type, const FieldRule&);
std::string show_default(const Json&);
std::string show_value(const Json&);  ///< as people write it: 4 rather than 4.0, no quotes
}  // namespace schema_detail

template <>
struct Codec<bool> {
  static bool read(const Json& j, bool& out, const FieldRule&, const Reader& r) { return schema_detail::read_bool(j, out, r); }
  static Json write(bool value) { return value; }
  static Json describe(const FieldRule& rule) { return schema_detail::describe_scalar("boolean", rule); }
  static std::string type_name() { return "true | false"; }
};

template <>
struct Codec<std::int64_t> {
  static bool read(const Json& j, std::int64_t& out, const FieldRule& rule, const Reader& r) {
    return schema_detail::read_integer(j, out, rule, r);
  }
  static Json write(std::int64_t value) { return value; }
  static Json describe(const FieldRule& rule) { return schema_detail::describe_scalar("integer", rule); }
  static std::string type_name() { return "integer"; }
};

template <>
struct Codec<double> {
  static bool read(const Json& j, double& out, const FieldRule& rule, const Reader& r) {
    return schema_detail::read_number(j, out, rule, r);
  }
  static Json write(double value) { return value; }
  static Json describe(const FieldRule& rule) { return schema_detail::describe_scalar("number", rule); }
  static std::string type_name() { return "number"; }
};

template <>
struct Codec<std::string> {
  static bool read(const Json& j, std::string& out, const FieldRule& rule, const Reader& r) {
    return schema_detail::read_string(j, out, rule, r);
  }
  static Json write(const std::string& value) { return value; }
  static Json describe(const FieldRule& rule) { return schema_detail::describe_scalar("string", rule); }
  static std::string type_name() { return "string"; }
};

template <class M>
struct Codec<std::vector<M>> {
  static bool read(const Json& j, std::vector<M>& out, const FieldRule& rule, const Reader& r) {
    if (!schema_detail::is_array(j, r)) return false;
    std::vector<M> items;
    bool ok = true;
    for (std::size_t i = 0; i < j.size(); ++i) {
      M item{};
      ok = Codec<M>::read(j[i], item, rule, r.at(std::to_string(i))) && ok;
      items.push_back(std::move(item));
    }
    if (ok) out = std::move(items);
    return ok;
  }
  static Json write(const std::vector<M>& value) {
    Json array = Json::array();
    for (const M& item : value) array.push_back(Codec<M>::write(item));
    return array;
  }
  static Json describe(const FieldRule& rule) { return {{"type", "array"}, {"items", Codec<M>::describe(rule)}}; }
  static std::string type_name() { return "list of " + Codec<M>::type_name(); }
};

template <class M>
struct Codec<std::optional<M>> {
  static bool read(const Json& j, std::optional<M>& out, const FieldRule& rule, const Reader& r) {
    if (j.is_null()) return out.reset(), true;
    M value{};
    if (!Codec<M>::read(j, value, rule, r)) return false;
    out = std::move(value);
    return true;
  }
  static Json write(const std::optional<M>& value) { return value ? Codec<M>::write(*value) : Json(nullptr); }
  static Json describe(const FieldRule& rule) { return {{"anyOf", {Codec<M>::describe(rule), {{"type", "null"}}}}}; }
  static std::string type_name() { return Codec<M>::type_name() + " or null"; }
};

/// A nested struct with a table of its own.
template <class M>
struct Codec<M, std::void_t<decltype(schema<M>())>> {
  static bool read(const Json& j, M& out, const FieldRule&, const Reader& r) { return schema<M>().read(j, out, r); }
  static Json write(const M& value) { return schema<M>().write(value); }
  static Json describe(const FieldRule&) { return schema<M>().describe(); }
  static std::string type_name() { return "object"; }
};

template <class T>
bool Schema<T>::read(const Json& j, T& out, const Reader& r) const {
  if (!schema_detail::is_object(j, r)) return false;
  const std::size_t before = r.problem_count();
  for (const auto& [key, value] : j.items()) {
    bool known = false;
    for (const Field& f : fields_) {
      if (f.name != key) continue;
      known = true;
      f.read(value, out, f.rule, r.at(key));
    }
    for (const std::string& key_ignored : ignored_) known = known || key_ignored == key;
    if (!known) schema_detail::unknown_key(j, key, names(), r);
  }
  for (const Field& f : fields_) {
    if (f.rule.required && !j.contains(f.name)) r.problem("missing key \"" + f.name + "\": " + f.help);
  }
  if (r.problem_count() == before) {
    for (const auto& rule : checks_) rule(out, r);
  }
  return r.problem_count() == before;
}

template <class T>
Json Schema<T>::write(const T& value) const {
  Json object = Json::object();
  for (const Field& f : fields_) object[f.name] = f.write(value);
  return object;
}

template <class T>
Json Schema<T>::describe() const {
  const T defaults{};
  Json properties = Json::object();
  Json required = Json::array();
  for (const Field& f : fields_) {
    Json property = f.describe(f.rule);
    property["description"] = f.help;
    if (f.rule.required) required.push_back(f.name);
    else property["default"] = f.write(defaults);
    properties[f.name] = std::move(property);
  }
  for (const std::string& key : ignored_) properties[key] = Json::object();
  Json object = {{"type", "object"}, {"title", title_}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) object["required"] = std::move(required);
  return object;
}

template <class T>
std::vector<FieldDoc> Schema<T>::document(const T& value) const {
  std::vector<FieldDoc> rows;
  for (const Field& f : fields_) {
    rows.push_back(
        {f.name, f.type_name, f.rule.required ? "required" : schema_detail::show_default(f.write(value)), f.rule.text(), f.help});
  }
  return rows;
}

template <class T>
std::vector<std::string> Schema<T>::names() const {
  std::vector<std::string> all;
  for (const Field& f : fields_) all.push_back(f.name);
  return all;
}

}  // namespace posenc
