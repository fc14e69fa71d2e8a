#include "data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/scratch.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

std::string char_refusal(const std::string& text) {
  return message_of<DataError>([&] { make_tokenizer("char", text, "bad.txt"); });
}

// Fault 83: nothing is a C string.
TEST(Tokenizer, BytesKeepNul) {
  const std::string text = "ab\0cd\nef\n"s;
  const auto tokenizer = make_tokenizer("byte", text, "nul.txt");
  const std::vector<std::int32_t> tokens = tokenizer->encode(text, "nul.txt");
  EXPECT_THAT(tokens, ElementsAre(97, 98, 0, 99, 100, 10, 101, 102, 10));
  EXPECT_EQ(tokenizer->decode(tokens), "ab\0cd\nef\n"s);
}

// Fault 81.
TEST(Tokenizer, BytesTakeWhatIsNotUtf8) {
  const auto tokenizer = make_tokenizer("byte", "", "x");
  EXPECT_THAT(tokenizer->encode("\xFF\xFE\x41", "x"), ElementsAre(255, 254, 65));
  EXPECT_EQ(tokenizer->decode({255, 254, 65}), "\xFF\xFE\x41");
  EXPECT_EQ(tokenizer->vocab_size(), 256);
}

// Fault 84.
TEST(Tokenizer, BytesKeepLineEnds) {
  const auto tokenizer = make_tokenizer("byte", "", "x");
  EXPECT_THAT(tokenizer->encode("a\r\n", "x"), ElementsAre(97, 13, 10));
  EXPECT_EQ(tokenizer->decode({97, 13, 10}), "a\r\n");
}

TEST(Tokenizer, CharsAreCodePointsInAscendingOrder) {
  // U+000A, U+0061, U+0068, U+00E9, U+1D11E (musical symbol G clef, four bytes)
  const auto tokenizer = make_tokenizer("char", "hé\U0001D11Ea\n", "x");
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_THAT(tokenizer->encode("a\nhé\U0001D11E", "x"), ElementsAre(1, 0, 2, 3, 4));
  EXPECT_EQ(tokenizer->decode({4, 3, 0}), "\U0001D11Eé\n");
}

TEST(Tokenizer, CharsKeepNulAndLineEnds) {
  const std::string text = "a\0\r\n"s;
  const auto tokenizer = make_tokenizer("char", text, "x");
  EXPECT_THAT(tokenizer->encode(text, "x"), ElementsAre(3, 0, 2, 1));
  EXPECT_EQ(tokenizer->decode({3, 0, 2, 1}), text);
}

// Fault 81. Ill-formed sequences of the Unicode Standard, §3.9.
TEST(Tokenizer, CharsRefuseInvalidUtf8NamingFileAndOffset) {
  EXPECT_THAT(char_refusal("\xFF\xFE\x41"), AllOf(HasSubstr("bad.txt"), HasSubstr("offset 0 ")));
  EXPECT_THAT(char_refusal("ab\x80"), HasSubstr("offset 2 "));             // continuation without lead
  EXPECT_THAT(char_refusal("é\xC3"), HasSubstr("offset 2 "));              // cut short by the end
  EXPECT_THAT(char_refusal("\xE2\x82 x"), HasSubstr("offset 0 "));         // cut short by another character
  EXPECT_THAT(char_refusal("a\xC0\x80"), HasSubstr("offset 1 "));          // overlong NUL
  EXPECT_THAT(char_refusal("a\xE0\x9F\xBF"), HasSubstr("offset 1 "));      // overlong U+07FF
  EXPECT_THAT(char_refusal("a\xF0\x8F\xBF\xBF"), HasSubstr("offset 1 "));  // overlong U+FFFF
  EXPECT_THAT(char_refusal("a\xED\xA0\x80"), HasSubstr("offset 1 "));      // surrogate U+D800
  EXPECT_THAT(char_refusal("a\xF4\x90\x80\x80"), HasSubstr("offset 1 "));  // U+110000
}

TEST(Tokenizer, CharsTakeTheEdgesOfUtf8) {
  // U+0080, U+07FF, U+0800, U+D7FF, U+E000, U+FFFF, U+10000, U+10FFFF
  const std::string text = "\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF";
  EXPECT_THAT(make_tokenizer("char", text, "x")->encode(text, "x"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Tokenizer, CharsRefuseACharacterWithoutToken) {
  const auto tokenizer = make_tokenizer("char", "ace", "x");
  EXPECT_THAT(message_of<DataError>([&] { tokenizer->encode("acé", "other.txt"); }),
              AllOf(HasSubstr("other.txt"), HasSubstr("'é'"), HasSubstr("offset 2 ")));
  EXPECT_THAT(message_of<DataError>([&] { tokenizer->encode("b", "other.txt"); }), HasSubstr("'b'"));
}

TEST(Tokenizer, DecodeRefusesATokenOutsideTheVocabulary) {
  EXPECT_THAT(message_of<DataError>([] { make_tokenizer("byte", "", "x")->decode({256}); }), HasSubstr("token 256 "));
  EXPECT_THAT(message_of<DataError>([] { make_tokenizer("char", "ab", "x")->decode({-1}); }), HasSubstr("token -1 "));
  EXPECT_THAT(message_of<DataError>([] { make_tokenizer("char", "ab", "x")->decode({2}); }), HasSubstr("token 2 "));
}

TEST(Tokenizer, StateRestoresTheSameIds) {
  const auto made = make_tokenizer("char", "zé\0a"s, "x");
  const auto restored = restore_tokenizer(Json::parse(made->state().dump()), "run");
  EXPECT_EQ(restored->name(), "char");
  EXPECT_THAT(restored->encode("aéz\0"s, "x"), ElementsAre(1, 3, 2, 0));
  EXPECT_EQ(restore_tokenizer(make_tokenizer("byte", "", "x")->state(), "run")->vocab_size(), 256);
}

TEST(Tokenizer, RefusesWhatIsNoState) {
  for (const char* state :
       {"null", "[]", "{}", R"({"tokenizer": 1})", R"({"tokenizer": "char"})", R"({"tokenizer": "char", "table": 3})"}) {
    EXPECT_THAT(message_of<DataError>([&] { restore_tokenizer(Json::parse(state), "run/config.json"); }),
                HasSubstr("run/config.json"))
        << state;
  }
}

TEST(Tokenizer, IdsAreNumbersBetweenBlanks) {
  const auto tokenizer = make_tokenizer("ids", "3 0\n 12\t7", "x");
  EXPECT_EQ(tokenizer->vocab_size(), 13);
  EXPECT_THAT(tokenizer->encode(" 3 0\n 12\t7 ", "x"), ElementsAre(3, 0, 12, 7));
  EXPECT_EQ(tokenizer->decode({3, 12}), "3 12 ");
  EXPECT_THAT(message_of<DataError>([&] { tokenizer->encode("3 13", "ids.txt"); }),
              AllOf(HasSubstr("ids.txt"), HasSubstr("13 at byte offset 2")));
  for (const char* wrong : {"3 -1", "3 1.5", "3 x", "3 99999999999"})
    EXPECT_THAT(message_of<DataError>([&] { tokenizer->encode(wrong, "ids.txt"); }), HasSubstr("offset 2 is no token id"))
        << wrong;
  EXPECT_EQ(restore_tokenizer(tokenizer->state(), "run")->vocab_size(), 13);
}

TEST(Tokenizer, RefusesAnUnknownName) { EXPECT_THROW(make_tokenizer("bpe", "", "x"), ConfigError); }

}  // namespace
}  // namespace posenc
