// parse_json: nlohmann's grammar, with our limits and our words for what is wrong.

#include <algorithm>
#include <cctype>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace posenc {
namespace {

// Long keys times many values would fill the memory; where() names the parent of what is not recorded.
constexpr std::size_t kLongestRecordedPointer = 1024;
constexpr const char* kValue = "a value";
constexpr const char* kKey = "a key in double quotes";

/// The text as tokens: just enough of the lexer to know where each one starts and ends.
class Text {
 public:
  explicit Text(std::string_view text) : text_(text) {}

  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  std::size_t size() const { return text_.size(); }
  std::string_view slice(std::size_t from, std::size_t to) const { return text_.substr(from, to - from); }

  /// The first place from `i` on that is neither white space nor comment.
  std::size_t skip_blank(std::size_t i) const {
    while (i < text_.size()) {
      if (text_.substr(i, 2) == "//") {
        i = std::min(text_.find_first_of("\r\n", i), text_.size());
      } else if (text_.substr(i, 2) == "/*") {
        const std::size_t end = text_.find("*/", i + 2);
        i = end == std::string_view::npos ? text_.size() : end + 2;
      } else if (std::string_view(" \t\r\n").find(text_[i]) != std::string_view::npos) {
        ++i;
      } else {
        break;
      }
    }
    return i;
  }

  std::size_t token_end(std::size_t i) const {
    if (at(i) == '"') return string_end(i);
    if (at(i) == '-' || std::isdigit(static_cast<unsigned char>(at(i)))) return number_end(i);
    if (!is_word(at(i))) return std::min(i + 1, text_.size());
    while (is_word(at(i))) ++i;
    return i;
  }

 private:
  static bool is_word(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::isalnum(byte) || byte == '_' || byte >= 0x80;
  }

  std::size_t string_end(std::size_t i) const {
    for (++i; i < text_.size() && text_[i] != '"'; ++i) {
      if (text_[i] == '\\') ++i;
    }
    return std::min(i + 1, text_.size());
  }

  std::size_t number_end(std::size_t i) const {
    const auto digits = [&] {
      while (std::isdigit(static_cast<unsigned char>(at(i)))) ++i;
    };
    if (at(i) == '-') ++i;
    if (at(i) == '0') ++i;
    else digits();
    if (at(i) == '.') ++i, digits();
    if (at(i) == 'e' || at(i) == 'E') {
      ++i;
      if (at(i) == '+' || at(i) == '-') ++i;
      digits();
    }
    return i;
  }

  std::string_view text_;
};

/// Receives the parser's events in the order of the text and builds the document. Throws at the first problem.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, Document& document, const JsonLimits& limits)
      : text_(text), document_(document), limits_(limits) {}

  bool null() override { return add(nullptr), true; }
  bool boolean(bool value) override { return add(value), true; }
  bool number_integer(Json::number_integer_t value) override { return add(value), true; }
  bool number_unsigned(Json::number_unsigned_t value) override { return add(value), true; }
  bool number_float(Json::number_float_t value, const std::string&) override { return add(value), true; }
  bool string(std::string& value) override { return add(std::move(value)), true; }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()), true; }
  bool start_array(std::size_t) override { return open(Json::array()), true; }
  bool end_object() override { return close(), true; }
  bool end_array() override { return close(), true; }

  bool key(std::string& name) override {
    const std::size_t start = next_token();
    Frame& frame = frames_.back();
    frame.key = name;
    if (frame.keys.insert(name).second) return true;
    const std::string pointer = join_pointer(frame.pointer, name);
    const auto first = document_.places.find(pointer);
    const std::string hint = first == document_.places.end() ? "" : " (the first is at " + first->second + ")";
    fail(start, "duplicate key " + brief(name) + hint + ": remove one", pointer);
  }

  bool parse_error(std::size_t read, const std::string&, const Json::exception& error) override {
    const std::size_t start = offending_token(read);
    const std::string what = error.what();
    const std::size_t phrase = what.find(" - invalid ");
    if (error.id == 406) {
      const std::string number(text_.slice(start, text_.token_end(start)).substr(0, 60));
      fail(start, number + " is outside the range of a double (about ±1.8e308)");
    }
    if (phrase != std::string::npos && what.compare(phrase, 18, " - invalid literal") != 0) {
      const std::size_t from = phrase + 3;  // the lexer's own words on a string, number, or comment that is wrong inside
      fail(std::min(read, text_.size() + 1) - 1, what.substr(from, what.find("; last read", from) - from));
    }
    fail(start, describe(start, what));
  }

  [[noreturn]] void fail(std::size_t offset, const std::string& rule, const std::string& pointer = "") {
    throw ConfigError({Problem{place(offset), pointer, rule}});
  }

 private:
  /// An object or array that is being filled.
  struct Frame {
    Json* value;
    std::string pointer;
    std::string opened;                    // its place
    std::string key;                       // the member being read
    std::unordered_set<std::string> keys;  // so far; a search in the ordered object would be quadratic
  };

  std::size_t next_token() {
    std::size_t start = text_.skip_blank(end_);
    while (text_.at(start) == ',' || text_.at(start) == ':') start = text_.skip_blank(start + 1);
    end_ = text_.token_end(start);
    return start;
  }

  /// The start of the token in which the parser stopped, after reading `read` bytes.
  std::size_t offending_token(std::size_t read) const {
    std::size_t start = text_.skip_blank(end_);
    while (start < text_.size() && text_.token_end(start) < read) start = text_.skip_blank(text_.token_end(start));
    return start;
  }

  /// "name:line:column"; offsets must not decrease from call to call.
  std::string place(std::size_t offset) {
    for (; counted_ < std::min(offset, text_.size()); ++counted_) {
      const char c = text_.at(counted_);
      if (c == '\n') ++line_, column_ = 1;
      else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++column_;  // columns are characters, as editors count
    }
    return document_.name + ":" + std::to_string(line_) + ":" + std::to_string(column_);
  }

  Json* add(Json value) {
    const std::size_t start = next_token();
    if (++values_ > limits_.max_values) fail(start, "more than " + std::to_string(limits_.max_values) + " values");
    Frame* frame = frames_.empty() ? nullptr : &frames_.back();
    const bool in_array = frame && frame->value->is_array();
    pointer_ = frame ? join_pointer(frame->pointer, in_array ? std::to_string(frame->value->size()) : frame->key) : "";
    place_ = place(start);
    if (pointer_.size() <= kLongestRecordedPointer) document_.places.emplace(pointer_, place_);
    if (!frame) return &(document_.root = std::move(value));
    if (in_array) return &frame->value->get_ref<Json::array_t&>().emplace_back(std::move(value));
    return &frame->value->get_ref<Json::object_t&>().emplace_back(frame->key, std::move(value)).second;
  }

  void open(Json container) {
    Json* value = add(std::move(container));
    if (frames_.size() == limits_.max_depth) {
      throw ConfigError({Problem{place_, "", "nested more than " + std::to_string(limits_.max_depth) + " levels deep"}});
    }
    frames_.push_back({value, pointer_, place_, "", {}});
  }

  void close() {
    next_token();
    frames_.pop_back();
  }

  std::string describe(std::size_t start, const std::string& what) const {
    const char c = text_.at(start);
    if (start >= text_.size() && values_ == 0) return "the text is empty; JSON was expected";
    if (values_ > 0 && frames_.empty()) return "text after the end of the JSON value: one file holds one value";
    const std::string expected = expectation(what);
    if (start >= text_.size()) {
      return "the text ends where " + expected + " was expected (cut off?); open since " + frames_.back().opened;
    }
    if ((c == '}' || c == ']') && text_.at(text_.skip_blank(end_)) == ',') {
      return std::string("trailing comma before ") + c + ": remove it";
    }
    if (c == '\'') return "strings and keys need double quotes, not single ones";
    const std::string token(text_.slice(start, text_.token_end(start)));
    if (token == "NaN" || token == "Infinity") return token + " is not JSON: a number must be finite";
    const bool word = std::isalpha(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80;
    const bool string_fits = expected == kValue || expected == kKey;
    const std::string hint = word && string_fits ? " (a string needs double quotes)" : "";
    return "found " + (c == '"' ? "a string" : brief(token)) + " where " + expected + " was expected" + hint;
  }

  /// What the grammar allowed at an unexpected token; the parser names the context it was in.
  static std::string expectation(const std::string& what) {
    if (what.find("parsing object key") != std::string::npos) return kKey;
    if (what.find("parsing object separator") != std::string::npos) return "a colon after the key";
    if (what.find("parsing object") != std::string::npos) return "a comma or }";
    if (what.find("parsing array") != std::string::npos) return "a comma or ]";
    return kValue;
  }

  Text text_;
  Document& document_;
  const JsonLimits& limits_;
  std::vector<Frame> frames_;
  std::string pointer_, place_;  // of the value added last
  std::size_t values_ = 0;
  std::size_t end_ = 0;  // of the last token
  std::size_t counted_ = 0, line_ = 1, column_ = 1;
};

}  // namespace

Document parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    const std::string rule = std::to_string(text.size()) + " bytes; at most " + std::to_string(limits.max_bytes) + " are read";
    throw ConfigError({Problem{name, "", rule}});
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Document document{nullptr, name, {}};
  Builder builder(text, document, limits);
  if (text.starts_with(kByteOrderMark[0])) builder.fail(0, "a stray byte order mark");
  // The parser takes a NUL for the end of the text and would not look at what follows.
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) builder.fail(nul, "a NUL byte: this is not a text file");
  constexpr bool kWholeText = true, kSkipComments = true;
  Json::sax_parse(text.begin(), text.end(), &builder, Json::input_format_t::json, kWholeText, kSkipComments);
  return document;
}

Document load_json(const fs::path& path, const JsonLimits& limits) { return parse_json(read_file(path), path.string(), limits); }

}  // namespace posenc
