#include "core/json.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"

namespace posenc {
namespace {

constexpr std::size_t kLongestShown = 60;

[[noreturn]] void refuse(std::string_view assignment, const std::string& pointer, const std::string& rule) {
  throw ConfigError({Problem{"--set " + std::string(assignment), pointer, rule}});
}

/// The keys of a JSON pointer, unescaped; nullopt when a ~ is followed by neither 0 nor 1.
std::optional<std::vector<std::string>> split_pointer(std::string_view pointer) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      keys.emplace_back();
    } else if (pointer[i] == '~') {
      const char code = ++i < pointer.size() ? pointer[i] : '\0';
      if (code != '0' && code != '1') return std::nullopt;
      keys.back() += code == '0' ? '~' : '/';
    } else {
      keys.back() += pointer[i];
    }
  }
  return keys;
}

Json parse_value(std::string_view assignment, const std::string& pointer, std::string_view text) {
  if (text.empty()) refuse(assignment, pointer, "no value after the =");
  try {
    return parse_json(text, "value").root;
  } catch (const ConfigError& error) {
    const bool bare = std::string_view("{[\"").find(text.front()) == std::string_view::npos;
    if (!bare) refuse(assignment, pointer, error.what());
    const std::string word = brief(std::string(text));
    refuse(assignment, pointer,
           "the value is not JSON; a string needs double quotes: write --set '" + pointer + "=" + word + "'");
  }
}

/// The member `key` of `parent`, made where an object lacks it.
Json& member(Json& parent, const std::string& key, std::string_view assignment, const std::string& pointer) {
  if (parent.is_null()) parent = Json::object();
  if (parent.is_object()) return parent[key];
  if (!parent.is_array()) {
    refuse(assignment, pointer, "is inside " + brief(parent) + ", which has no members: set the whole of it to an object first");
  }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || end != key.data() + key.size() || index >= parent.size()) {
    refuse(assignment, pointer,
           brief(key) + " is not an index of a list of " + std::to_string(parent.size()) + " (they count from 0)");
  }
  return parent[index];
}

bool all_finite(const Json& value) {
  if (value.is_number_float()) return std::isfinite(value.get<double>());
  return !value.is_structured() || std::all_of(value.begin(), value.end(), all_finite);
}

std::string dump(const Json& value, int indent) {
  POSENC_CHECK(all_finite(value), "NaN or Infinity in " + brief(value));
  // A file name need not be UTF-8; what is not becomes U+FFFD.
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Lower case, words divided by underscores.
std::string normal(std::string_view name) {
  std::string text;
  for (const char c : name) {
    text += c == '-' || c == '.' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

/// Insertions, deletions, replacements and swaps of neighbours that turn a into b.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before, row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = std::exchange(row, next);
  }
  return row.back();
}

std::string initials(const std::string& name) {
  std::string letters;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (i == 0 || name[i - 1] == '_') letters += name[i];
  }
  return letters;
}

/// One holds the other as a whole word ("num_steps", "steps"), or abbreviates it ("learning_rate", "lr").
bool related(const std::string& a, const std::string& b) {
  const auto holds = [](const std::string& whole, const std::string& part) {
    return part.size() >= 3 && ("_" + whole + "_").find("_" + part + "_") != std::string::npos;
  };
  const auto abbreviates = [](const std::string& shorter, const std::string& name) {
    return shorter.size() >= 2 && shorter == initials(name);
  };
  return holds(a, b) || holds(b, a) || abbreviates(a, b) || abbreviates(b, a);
}

}  // namespace

std::string Document::where(std::string_view pointer) const {
  for (std::string_view rest = pointer;; rest = rest.substr(0, rest.rfind('/'))) {
    if (const auto place = places.find(std::string(rest)); place != places.end()) return place->second;
    if (rest.find('/') == std::string_view::npos) return name;
  }
}

void apply_override(Document& document, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string pointer(assignment.substr(0, equals));
  if (pointer.empty() || pointer[0] != '/') {
    refuse(assignment, "", "a JSON pointer begins with /, and = follows it: for example --set /train/length=64");
  }
  if (equals == std::string_view::npos) refuse(assignment, "", "no = and value: for example --set " + pointer + "=64");
  const auto keys = split_pointer(pointer);
  if (!keys) refuse(assignment, pointer, "in a JSON pointer ~ is written ~0, and / within a key ~1");
  if (keys->size() > JsonLimits{}.max_depth) refuse(assignment, pointer, "nested too deeply");
  Json value = parse_value(assignment, pointer, assignment.substr(equals + 1));
  Json root = document.root;  // a copy, so that a refused override leaves nothing behind
  Json* target = &root;
  for (const std::string& key : *keys) target = &member(*target, key, assignment, pointer);
  *target = std::move(value);
  document.root = std::move(root);
  std::erase_if(document.places, [&](const auto& place) { return place.first.starts_with(pointer + "/"); });
  document.places[pointer] = "--set " + std::string(assignment);
}

std::string join_pointer(std::string_view pointer, std::string_view key) {
  std::string joined(pointer);
  joined += '/';
  for (const char c : key) {
    if (c == '~') joined += "~0";
    else if (c == '/') joined += "~1";
    else joined += c;
  }
  return joined;
}

std::string brief(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kLongestShown) return text;
  std::size_t end = kLongestShown;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + (value.is_string() ? "…\"" : "…");
}

std::string dump_json(const Json& value) { return dump(value, 2) + "\n"; }

std::string dump_json_line(const Json& value) { return dump(value, -1); }

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestName = 100;
  if (name.size() > kLongestName) return "";
  const std::string wanted = normal(name);
  std::string best;
  std::size_t best_distance = kLongestName;
  for (const std::string& candidate : candidates) {
    const std::string other = normal(candidate);
    const std::size_t longest = std::max(wanted.size(), other.size());
    const std::size_t distance = edit_distance(wanted, other);
    const std::size_t limit = longest < 3 ? 0 : std::max<std::size_t>(1, longest / 3);
    if (distance <= limit && distance < best_distance) best = candidate, best_distance = distance;
  }
  if (!best.empty()) return best;
  const auto is_related = [&](const std::string& candidate) { return related(wanted, normal(candidate)); };
  const auto other = std::find_if(candidates.begin(), candidates.end(), is_related);
  return other == candidates.end() ? "" : *other;
}

}  // namespace posenc
