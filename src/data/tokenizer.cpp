#include "data/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>
#include <utility>

#include "core/error.h"

namespace posenc {
namespace {

/// A code point and how many bytes it takes; 0 bytes when none starts there.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
};

/// The code point at `at`, by table 3-7 of the Unicode Standard: no overlong forms, no surrogates, nothing above U+10FFFF.
CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (bytes == 0 || text.size() - at < bytes) return {};
  char32_t value = lead & (0x7F >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xC0) != 0x80) return {};
    value = value << 6 | (next & 0x3F);
  }
  const bool overlong = value < (bytes == 3 ? 0x800u : bytes == 4 ? 0x10000u : 0x80u);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return overlong || surrogate || value > 0x10FFFF ? CodePoint{} : CodePoint{value, bytes};
}

/// Calls visit(code point, its bytes, byte offset) along the text.
template <class Visit>
void for_each_code_point(std::string_view text, const std::string& source, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (c.bytes == 0) {
      throw DataError(source + ": the byte at offset " + std::to_string(at) +
                      " is not valid UTF-8; use the byte tokenizer, or convert the text (iconv -t UTF-8)");
    }
    visit(c.value, text.substr(at, c.bytes), at);
    at += c.bytes;
  }
}

void require_token(std::int32_t token, std::int64_t vocab_size) {
  if (token >= 0 && token < vocab_size) return;
  throw DataError("token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(vocab_size));
}

class ByteTokenizer : public Tokenizer {
 public:
  std::int64_t vocab_size() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text, const std::string&) const override {
    std::vector<std::int32_t> tokens(text.size());
    std::transform(text.begin(), text.end(), tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
    return tokens;
  }
  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string text;
    for (std::int32_t token : tokens) {
      require_token(token, vocab_size());
      text += static_cast<char>(token);
    }
    return text;
  }
  std::string name() const override { return "byte"; }
  std::string unit() const override { return "byte"; }
  Json state() const override { return {{"tokenizer", "byte"}}; }
};

class CharTokenizer : public Tokenizer {
 public:
  CharTokenizer(std::string_view text, const std::string& source) {
    std::set<char32_t> seen;
    for_each_code_point(text, source, [&](char32_t c, std::string_view, std::size_t) { seen.insert(c); });
    table_.assign(seen.begin(), seen.end());
    chars_.resize(table_.size());
    for_each_code_point(text, source, [&](char32_t c, std::string_view bytes, std::size_t) { chars_[index(c)] = bytes; });
  }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(table_.size()); }
  std::vector<std::int32_t> encode(std::string_view text, const std::string& name) const override {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for_each_code_point(text, name, [&](char32_t c, std::string_view bytes, std::size_t at) {
      const std::size_t i = index(c);
      if (i == table_.size() || table_[i] != c) {
        throw DataError(name + ": the character '" + std::string(bytes) + "' at byte offset " + std::to_string(at) +
                        " has no token among the " + std::to_string(table_.size()) +
                        " of this char tokenizer; the byte tokenizer takes any text");
      }
      tokens.push_back(static_cast<std::int32_t>(i));
    });
    return tokens;
  }
  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string text;
    for (std::int32_t token : tokens) {
      require_token(token, vocab_size());
      text += chars_[static_cast<std::size_t>(token)];
    }
    return text;
  }
  std::string name() const override { return "char"; }
  std::string unit() const override { return "char"; }
  Json state() const override {
    std::string table;
    for (const std::string& c : chars_) table += c;
    return {{"tokenizer", "char"}, {"table", table}};
  }

 private:
  /// Where `c` stands, or would stand, in the table.
  std::size_t index(char32_t c) const {
    return static_cast<std::size_t>(std::lower_bound(table_.begin(), table_.end(), c) - table_.begin());
  }

  std::vector<char32_t> table_;     // ascending
  std::vector<std::string> chars_;  // the same as UTF-8
};

/// Decimal token ids between blanks, for models whose tokenizer is elsewhere.
class IdTokenizer : public Tokenizer {
 public:
  explicit IdTokenizer(std::int64_t vocab) : vocab_(vocab) {}
  std::int64_t vocab_size() const override { return vocab_; }
  std::vector<std::int32_t> encode(std::string_view text, const std::string& name) const override {
    std::vector<std::int32_t> tokens;
    for_each_id(text, name, [&](std::int32_t id, std::size_t at) {
      if (id >= vocab_) {
        throw DataError(name + ": " + std::to_string(id) + " at byte offset " + std::to_string(at) +
                        " is not below the vocabulary's " + std::to_string(vocab_));
      }
      tokens.push_back(id);
    });
    return tokens;
  }
  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      require_token(token, vocab_size());
      text += std::to_string(token) + " ";
    }
    return text;
  }
  std::string name() const override { return "ids"; }
  std::string unit() const override { return "token"; }
  Json state() const override { return {{"tokenizer", "ids"}, {"vocab", vocab_}}; }

  /// f(id, byte offset) for each; DataError for what is no id.
  static void for_each_id(std::string_view text, const std::string& name,
                          const std::function<void(std::int32_t, std::size_t)>& f) {
    constexpr std::string_view kBlanks = " \t\r\n";
    for (std::size_t at = text.find_first_not_of(kBlanks), end = 0; at != std::string_view::npos;
         at = text.find_first_not_of(kBlanks, end)) {
      end = std::min(text.find_first_of(kBlanks, at), text.size());
      std::int32_t id = 0;
      const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
      if (error != std::errc{} || stop != text.data() + end || id < 0)
        throw DataError(name + ": \"" + std::string(text.substr(at, std::min<std::size_t>(end - at, 20))) + "\" at byte offset " +
                        std::to_string(at) + " is no token id; the ids tokenizer takes whole numbers between blanks");
      f(id, at);
    }
  }

 private:
  std::int64_t vocab_;
};

/// One more than the largest id of a text.
std::int64_t ids_below(std::string_view text, const std::string& source) {
  std::int64_t vocab = 1;
  IdTokenizer::for_each_id(text, source, [&](std::int32_t id, std::size_t) { vocab = std::max<std::int64_t>(vocab, id + 1); });
  return vocab;
}

constexpr const char* kMarks[] = {"<pad>", "<s>", "<answer>", "</s>"};  // kPadding, kStart, kAnswer, kEnd
constexpr std::size_t kMarkCount = std::size(kMarks);

class SymbolTokenizer : public Tokenizer {
 public:
  explicit SymbolTokenizer(std::string alphabet) : alphabet_(std::move(alphabet)) {}
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(kMarkCount + alphabet_.size()); }
  std::vector<std::int32_t> encode(std::string_view text, const std::string& name) const override {
    std::vector<std::int32_t> tokens;
    for (const char c : text) {
      const std::size_t at = alphabet_.find(c);
      if (at == std::string::npos) throw DataError(name + ": '" + c + "' is not of the alphabet \"" + alphabet_ + "\"");
      tokens.push_back(static_cast<std::int32_t>(kMarkCount + at));
    }
    return tokens;
  }
  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      require_token(token, vocab_size());
      const auto at = static_cast<std::size_t>(token);
      if (at < kMarkCount) text += kMarks[at];
      else text += alphabet_[at - kMarkCount];
    }
    return text;
  }
  std::string name() const override { return "symbol"; }
  std::string unit() const override { return "symbol"; }
  Json state() const override { return {{"tokenizer", "symbol"}, {"alphabet", alphabet_}}; }

 private:
  std::string alphabet_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_symbol_tokenizer(const std::string& alphabet) {
  return std::make_unique<SymbolTokenizer>(alphabet);
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, std::string_view text, const std::string& source) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  if (name == "char") return std::make_unique<CharTokenizer>(text, source);
  if (name == "ids") return std::make_unique<IdTokenizer>(ids_below(text, source));
  throw ConfigError("unknown tokenizer \"" + name + "\" (one of byte, char, ids)");
}

std::unique_ptr<Tokenizer> restore_tokenizer(const Json& state, const std::string& source) {
  const auto is = [&](const char* name) { return state.contains("tokenizer") && state["tokenizer"] == name; };
  if (is("byte")) return std::make_unique<ByteTokenizer>();
  if (is("char") && state.contains("table") && state["table"].is_string()) {
    return std::make_unique<CharTokenizer>(state["table"].get_ref<const std::string&>(), source);
  }
  if (is("ids") && state.contains("vocab") && state["vocab"].is_number_integer() && state["vocab"] > 0)
    return std::make_unique<IdTokenizer>(state["vocab"].get<std::int64_t>());
  if (is("symbol") && state.contains("alphabet") && state["alphabet"].is_string())
    return make_symbol_tokenizer(state["alphabet"].get<std::string>());
  throw DataError(source + ": not the state of a byte, char, ids or symbol tokenizer");
}

void require_utf8(std::string_view text, const std::string& source) {
  for_each_code_point(text, source, [](char32_t, std::string_view, std::size_t) {});
}

}  // namespace posenc
