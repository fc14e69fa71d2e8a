#pragma once
// Strict JSON on top of nlohmann: what a user's file must satisfy before any of our code reads it, and where in the
// file each value stands, so that an error can say file:line:column.
//
//   Document doc = load_json(path);                       // throws ConfigError: syntax, duplicate key, depth, size; IoError
//   doc.root;                                             // an ordered nlohmann::json
//   doc.where("/train/length");                           // "rope.json:12:15"
//
// Beyond the JSON grammar: a BOM and // and /* */ comments are accepted; a duplicate key, nesting beyond 64 levels,
// more than 100,000 values, more than `max_bytes`, a number outside double's range, invalid UTF-8 (outside comments) and
// trailing rubbish are refused.

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace posenc {

/// Keys keep the order in which they were written (files for people read in the order of the schema tables).
using Json = nlohmann::ordered_json;

/// A parsed file with the position of every value.
struct Document {
  Json root;
  std::string name;                           ///< file name or other label, for messages
  std::map<std::string, std::string> places;  ///< JSON pointer → "name:line:column" of the value

  /// Where the value at `pointer` stands; of its nearest parent when the pointer itself is absent.
  std::string where(std::string_view pointer) const;
};

struct JsonLimits {
  std::size_t max_bytes = 1 << 20;
  std::size_t max_depth = 64;
  std::size_t max_values = 100'000;
};

/// Parses `text`; throws ConfigError with line and column. `name` labels the source in messages.
Document parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});

/// parse_json of a file, under the name of its path; IoError when it cannot be read.
Document load_json(const std::filesystem::path& path, const JsonLimits& limits = {});

/// Sets the value at `pointer` (creating objects on the way) as `--set POINTER=JSON` does. The value part is parsed strictly;
/// text that is no JSON is a ConfigError (the message shows how to quote a string). Records "--set …" as the place.
void apply_override(Document& document, std::string_view assignment);

/// The pointer of the member `key` of the value at `pointer`, with ~ and / escaped (RFC 6901).
std::string join_pointer(std::string_view pointer, std::string_view key);

/// One line as JSON, cut after about 60 bytes: a user's value inside a message.
std::string brief(const Json& value);

/// Pretty-printed with two-space indent and a final newline; throws (POSENC_CHECK) on NaN or Infinity, so that no file of
/// ours holds one. Bytes that are no UTF-8 become U+FFFD.
std::string dump_json(const Json& value);

/// One line, no final newline; the same check.
std::string dump_json_line(const Json& value);

/// The name in `candidates` nearest to `name` by edit distance, or "" when nothing is near enough to suggest.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace posenc
