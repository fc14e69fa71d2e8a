#pragma once
// Text ↔ token ids. The byte tokenizer has 256 tokens and is the identity: NUL, CRLF and invalid UTF-8 come back as they went
// in. The char tokenizer has one token per Unicode code point of the text it was made from, in ascending order; nothing is
// normalised. The ids tokenizer takes decimal ids between blanks: the text of a model whose tokenizer is elsewhere.
//
//   auto tokenizer = make_tokenizer("char", text, "notes.txt");
//   tokenizer->decode(tokenizer->encode(text, "notes.txt")) == text
//
// The symbol tokenizer is that of a task (tasks/task.h): four tokens that stand around a question and its answer, then one for each
// character of an alphabet.
//
// A run stores state() and gets the same ids back from restore_tokenizer(state).

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace posenc {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocab_size() const = 0;
  /// DataError naming `name` and the byte offset when a character has no token. Never fails for bytes.
  virtual std::vector<std::int32_t> encode(std::string_view text, const std::string& name) const = 0;
  /// DataError when a token is outside [0, vocab_size).
  virtual std::string decode(const std::vector<std::int32_t>& tokens) const = 0;
  virtual std::string name() const = 0;  ///< "byte", "char", "ids" or "symbol"
  virtual std::string unit() const = 0;  ///< what one token is called in reports: "byte", "char", "token", "symbol"
  virtual Json state() const = 0;        ///< what a run must store to decode later (the char table); goes into config hash
};

/// The byte tokenizer; the char tokenizer whose table is the sorted set of code points of `text` (DataError on invalid UTF-8); or
/// the ids tokenizer with room for the largest id of `text` (DataError on what is no id).
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, std::string_view text, const std::string& source);

/// Tokens of the symbol tokenizer that are no character. Decoded they read "<pad>", "<s>", "<answer>" and "</s>".
inline constexpr std::int32_t kPadding = 0, kStart = 1, kAnswer = 2, kEnd = 3;

/// The symbol tokenizer over an alphabet of ASCII characters, each given once.
std::unique_ptr<Tokenizer> make_symbol_tokenizer(const std::string& alphabet);

/// The tokenizer whose state() this is. `source` names the file it was stored in; DataError when it is no such state.
std::unique_ptr<Tokenizer> restore_tokenizer(const Json& state, const std::string& source);

/// DataError naming `source` and the offset of the first byte that is not UTF-8 (overlong forms and surrogates are not).
void require_utf8(std::string_view text, const std::string& source);

}  // namespace posenc
