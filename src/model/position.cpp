#include "model/position.h"

#include <algorithm>

#include "core/short_form.h"

namespace posenc {

template <>
const Schema<TemperatureConfig>& schema<TemperatureConfig>() {
  static const Schema<TemperatureConfig> table =
      Schema<TemperatureConfig>("temperature")
          .field("method", &TemperatureConfig::method,
                 "factor on q·k: log_n: ln(keys)/ln(training length); ssmax: s*ln(keys), s learned; llama4: 1 + scale*ln(1 + "
                 "floor((i+1)/floor))")
          .choices({"none", "log_n", "ssmax", "llama4"})
          .field("form", &TemperatureConfig::form, "log_n: inference: at least 1, none in training; training: always, unclipped")
          .choices({"inference", "training"})
          .field("init", &TemperatureConfig::init, "ssmax: initial s; null: 1 / mean ln(keys) over the training length")
          .above(0)
          .field("floor", &TemperatureConfig::floor, "llama4: positions per step; null: the training length")
          .at_least(1)
          .field("scale", &TemperatureConfig::scale, "llama4: growth")
          .at_least(0);
  return table;
}

template <>
struct Codec<TemperatureConfig> {
  static bool read(const Json& j, TemperatureConfig& out, const FieldRule&, const Reader& r) {
    return schema<TemperatureConfig>().read(spelled_out(j, "method"), out, r);
  }
  static Json write(const TemperatureConfig& value) { return schema<TemperatureConfig>().write(value); }
  static Json describe(const FieldRule&) { return describe_short_or_long<TemperatureConfig>("method"); }
  static std::string type_name() { return "name or object"; }
};

template <>
const Schema<SinkConfig>& schema<SinkConfig>() {
  static const Schema<SinkConfig> table =
      Schema<SinkConfig>("sinks")
          .field("type", &SinkConfig::type,
                 "zero: a logit of 0 without a value; learned: a learned one per head; token: a learned first token")
          .choices({"none", "zero", "learned", "token"})
          .field("keep_first", &SinkConfig::keep_first, "first keys that stay visible beyond window and chunk")
          .range(0, 1 << 20);
  return table;
}

template <>
struct Codec<SinkConfig> {
  static bool read(const Json& j, SinkConfig& out, const FieldRule&, const Reader& r) {
    return schema<SinkConfig>().read(spelled_out(j, "type"), out, r);
  }
  static Json write(const SinkConfig& value) { return schema<SinkConfig>().write(value); }
  static Json describe(const FieldRule&) { return describe_short_or_long<SinkConfig>("type"); }
  static std::string type_name() { return "name or object"; }
};

template <>
const Schema<LayerAxes>& schema<LayerAxes>() {
  static const Schema<LayerAxes> table =
      Schema<LayerAxes>("layer")
          .field("window", &LayerAxes::window, "a query sees the last so many keys, its own included; null: all")
          .range(1, 1 << 24)
          .field("chunk", &LayerAxes::chunk, "a query sees keys of its own run of so many; null: all")
          .range(1, 1 << 24)
          .field("temperature", &LayerAxes::temperature, "factor on the logits")
          .field("sinks", &LayerAxes::sinks, "where attention may go instead of to a key")
          .check([](const LayerAxes& a, const Reader& r) {
            if (a.sinks.keep_first > 0 && !a.window && !a.chunk)
              r.at("sinks").problem("keep_first", "has a meaning only beside window or chunk");
          });
  return table;
}

namespace {

/// The members of `object` that are in `keys`, or those that are not.
Json members(const Json& object, const std::vector<std::string>& keys, bool in) {
  Json chosen = Json::object();
  for (const auto& [key, value] : object.items()) {
    if ((std::find(keys.begin(), keys.end(), key) != keys.end()) == in) chosen[key] = value;
  }
  return chosen;
}

Json without(const Json& object, const std::vector<std::string>& keys) { return members(object, keys, false); }

/// The keys an object may have whose scheme it names: the scheme's, then `others`; none when there is no such scheme.
std::vector<std::string> valid_keys(const Json& object, const std::vector<std::string>& others) {
  const Json name = object.value("scheme", Json());
  const SchemeInfo* info = name.is_string() ? find_registered(schemes(), name.get<std::string>()) : nullptr;
  if (!info) return {};
  std::vector<std::string> keys;
  for (const FieldDoc& field : info->parameters()) keys.push_back(field.name);
  keys.insert(keys.end(), others.begin(), others.end());
  keys.push_back("scheme");
  return keys;
}

void report_unknown(const Json& object, const std::vector<std::string>& keys, const Reader& reader) {
  const Json unknown = without(object, keys);
  for (const auto& [key, value] : unknown.items()) schema_detail::unknown_key(object, key, keys, reader);
}

/// Scheme, its parameters and the axes, from an object that holds nothing else.
bool read_layer(const Json& object, LayerPosition& out, const Reader& reader) {
  const std::vector<std::string> axes = schema<LayerAxes>().names();
  const bool scheme = read_registered(schemes(), "scheme", "scheme", without(object, axes), out, reader);
  return schema<LayerAxes>().read(members(object, axes, true), out.axes, reader) && scheme;
}

/// `entry` over `base`: another scheme leaves the base's parameters behind.
Json patched(const Json& base, const Json& entry) {
  Json merged = base;
  const Json name = entry.value("scheme", Json());
  if (name.is_string()) {
    const SchemeInfo* info = find_registered(schemes(), name.get<std::string>());
    const SchemeInfo* before = find_registered(schemes(), base.at("scheme").get<std::string>());
    if (info != before) merged = members(base, schema<LayerAxes>().names(), true);
  }
  merged.update(entry);
  return merged;
}

bool read_pattern(const Json& layers, const Json& base, std::vector<LayerEntry>& out, const Reader& reader) {
  if (!schema_detail::is_array(layers, reader)) return false;
  const std::size_t before = reader.problem_count();
  std::vector<std::string> keys = schema<LayerAxes>().names();
  keys.push_back("repeat");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Reader place = reader.at(std::to_string(i));
    const Json entry = spelled_out(layers[i], "scheme");
    if (!schema_detail::is_object(entry, place)) continue;
    LayerEntry& layer = out.emplace_back();
    FieldRule positive;
    positive.min = 1, positive.max = 1000;
    if (entry.contains("repeat")) schema_detail::read_integer(entry["repeat"], layer.repeat, positive, place.at("repeat"));
    const Json merged = patched(base, entry);
    const std::vector<std::string> valid = valid_keys(merged, keys);
    read_layer(without(valid.empty() ? merged : members(merged, valid, true), {"repeat"}), layer, place);
    if (!valid.empty()) report_unknown(merged, valid, place);
  }
  return reader.problem_count() == before;
}

Json write_layer(const LayerPosition& layer) {
  Json object = write_registered("scheme", layer);
  object.update(schema<LayerAxes>().write(layer.axes));
  return object;
}

std::string label_of(const LayerPosition& layer, const std::vector<std::string>& more = {}) {
  std::vector<std::string> parts = changed_parameters(scheme_of(layer), layer);
  const LayerAxes& a = layer.axes;
  if (a.window) parts.push_back("window=" + std::to_string(*a.window));
  if (a.chunk) parts.push_back("chunk=" + std::to_string(*a.chunk));
  if (a.temperature.method != "none") parts.push_back("temperature=" + a.temperature.method);
  if (a.sinks.type != "none") parts.push_back("sinks=" + a.sinks.type);
  if (a.sinks.keep_first > 0) parts.push_back("keep_first=" + std::to_string(a.sinks.keep_first));
  parts.insert(parts.end(), more.begin(), more.end());
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text.empty() ? layer.name : layer.name + "(" + text + ")";
}

void check_layer(const LayerPosition& layer, const ModelShape& shape, const Reader& reader) {
  const SchemeInfo& info = scheme_of(layer);
  info.check(layer.parameters, shape, reader);
  if (!info.traits.softmax && layer.axes.sinks.type != "none" && layer.axes.sinks.type != "token") {
    reader.problem("sinks", "a sink takes its share of a softmax, which " + info.name + " does not have (use token)");
  }
}

}  // namespace

const SchemeInfo& scheme_of(const Registered& choice) {
  const SchemeInfo* info = find_registered(schemes(), choice.name);
  POSENC_CHECK(info, "no scheme is called " + choice.name);
  return *info;
}

const std::vector<AxisDoc>& position_axes() {
  static const std::vector<AxisDoc> axes = [] {
    std::vector<AxisDoc> all;
    for (const FieldDoc& field : schema<LayerAxes>().document()) all.push_back({field.name, field.help, {}});
    all[2].parameters = schema<TemperatureConfig>().document();
    all[3].parameters = schema<SinkConfig>().document();
    all.push_back({"sampler", "positions in training", schema<SamplerConfig>().document()});
    all.push_back({"layers", "a pattern of layers, repeated: scheme and the axes above (but sampler) of each, repeat", {}});
    return all;
  }();
  return axes;
}

std::vector<LayerPosition> PositionConfig::plan(std::int64_t layers) const {
  std::vector<LayerPosition> period;
  for (const LayerEntry& entry : pattern) period.insert(period.end(), static_cast<std::size_t>(entry.repeat), entry);
  if (period.empty()) period.push_back(*this);
  std::vector<LayerPosition> all;
  for (std::size_t l = 0; l < static_cast<std::size_t>(layers); ++l) all.push_back(period[l % period.size()]);
  return all;
}

std::vector<const SchemeInfo*> PositionConfig::used_schemes() const {
  if (pattern.empty()) return {&scheme_of(*this)};
  std::vector<const SchemeInfo*> used;
  for (const LayerEntry& entry : pattern) {
    const SchemeInfo* info = &scheme_of(entry);
    if (std::find(used.begin(), used.end(), info) == used.end()) used.push_back(info);
  }
  return used;
}

std::string PositionConfig::label() const {
  std::vector<std::string> more;
  if (sampler.method != "arange") more.push_back("sampler=" + sampler.method);
  if (pattern.empty()) return label_of(*this, more);
  std::string text;
  for (const LayerEntry& entry : pattern) {
    text += (text.empty() ? "" : ", ") + (entry.repeat == 1 ? "" : std::to_string(entry.repeat) + "*") + label_of(entry);
  }
  return "[" + text + "]" + (more.empty() ? "" : "(" + more[0] + ")");
}

void PositionConfig::check(const ModelShape& shape, const Reader& reader) const {
  if (sampler.max && sampler.method != "offset" && *sampler.max < shape.train_length) {
    reader.at("sampler").problem(
        "max", std::to_string(*sampler.max) + " is below the training length " + std::to_string(shape.train_length));
  }
  if (pattern.empty()) return check_layer(*this, shape, reader);
  std::int64_t entries = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    entries += pattern[i].repeat;
    check_layer(pattern[i], shape, reader.at("layers").at(std::to_string(i)));
    const SchemeInfo& info = scheme_of(pattern[i]);
    if (info.traits.embeds() && (used_schemes().size() > 1 || pattern[i].parameters != pattern[0].parameters)) {
      reader.at("layers").problem(std::to_string(i), info.name +
                                                         " adds positions to the embeddings, once for the whole model; "
                                                         "it cannot be the scheme of some layers");
    }
    if ((pattern[i].axes.sinks.type == "token") != (pattern[0].axes.sinks.type == "token"))
      reader.at("layers").problem(std::to_string(i), "a sink token belongs to the whole model: all layers or none");
  }
  if (entries > shape.layers) {
    reader.problem("layers", "the pattern has " + std::to_string(entries) + " layers, the model " + std::to_string(shape.layers));
  }
}

bool Codec<PositionConfig>::read(const Json& j, PositionConfig& out, const FieldRule&, const Reader& reader) {
  if (!j.is_object()) return read_registered(schemes(), "scheme", "scheme", j, out, reader);
  const std::size_t before = reader.problem_count();
  std::vector<std::string> keys = schema<LayerAxes>().names();
  keys.insert(keys.end(), {"sampler", "layers"});
  const std::vector<std::string> valid = valid_keys(j, keys);
  const Json base = without(valid.empty() ? j : members(j, valid, true), {"sampler", "layers"});
  const bool readable = read_layer(base, out, reader);
  if (j.contains("sampler")) Codec<SamplerConfig>::read(j["sampler"], out.sampler, {}, reader.at("sampler"));
  if (j.contains("layers") && readable) read_pattern(j["layers"], base, out.pattern, reader.at("layers"));
  if (!valid.empty()) report_unknown(j, valid, reader);
  return reader.problem_count() == before;
}

Json Codec<PositionConfig>::write(const PositionConfig& value) {
  Json object = write_layer(value);
  object["sampler"] = Codec<SamplerConfig>::write(value.sampler);
  object["layers"] = Json::array();
  for (const LayerEntry& entry : value.pattern) {
    object["layers"].push_back(write_layer(entry));
    object["layers"].back()["repeat"] = entry.repeat;
  }
  return object;
}

Json Codec<PositionConfig>::describe(const FieldRule&) { return {{"$ref", "#/$defs/position"}}; }

Json position_definitions() {
  const Json axes = schema<LayerAxes>().describe()["properties"];
  Json definitions = axes;
  Json refer = Json::object();
  for (const auto& [key, axis] : axes.items()) refer[key] = {{"$ref", "#/$defs/" + key}};
  Json of_entry = refer;
  of_entry["repeat"] = {{"type", "integer"}, {"minimum", 1}, {"default", 1}, {"description", "layers in a row like this one"}};
  definitions["sampler"] = Codec<SamplerConfig>::describe({});
  definitions["layers"] = {{"type", "array"},
                           {"items", describe_registered(schemes(), "scheme", of_entry, /*key_required=*/false)},
                           {"default", Json::array()},
                           {"description", "a pattern of layers, repeated; an entry changes what it names. Empty: all alike"}};
  refer["sampler"] = {{"$ref", "#/$defs/sampler"}, {"description", "positions in training"}};
  refer["layers"] = {{"$ref", "#/$defs/layers"}};
  definitions["position"] = describe_registered(schemes(), "scheme", refer);
  return definitions;
}

}  // namespace posenc
