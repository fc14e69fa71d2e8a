#include "core/json.h"

#include <gmock/gmock.h>

#include <chrono>
#include <clocale>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <locale>

#include "core/error.h"

namespace posenc {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// The message with which `text` is refused, or "" when it is accepted.
std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "c.json", limits);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string override_refusal(const std::string& text, std::string_view assignment) {
  Document document = parse_json(text, "c.json");
  const Json before = document.root;
  try {
    apply_override(document, assignment);
  } catch (const ConfigError& error) {
    EXPECT_EQ(document.root, before);
    return error.what();
  }
  return "";
}

TEST(Json, KnowsThePlaceOfEveryValue) {
  const Document d = parse_json(
      "{\n"
      "  // a comment, with a { and a \"\n"
      "  \"seed\": 1,\n"
      "  \"eval\" : { \"lengths\" /* here: */ : [128,2.5e2 , -3], \"é\": [\"ü\", {\"a/b~c\": null}], \"last\": true }\n"
      "}\n",
      "c.json");
  EXPECT_EQ(d.where(""), "c.json:1:1");
  EXPECT_EQ(d.where("/seed"), "c.json:3:11");
  EXPECT_EQ(d.where("/eval"), "c.json:4:12");
  EXPECT_EQ(d.where("/eval/lengths"), "c.json:4:38");
  EXPECT_EQ(d.where("/eval/lengths/0"), "c.json:4:39");
  EXPECT_EQ(d.where("/eval/lengths/1"), "c.json:4:43");
  EXPECT_EQ(d.where("/eval/lengths/2"), "c.json:4:51");
  EXPECT_EQ(d.where("/eval/é/0"), "c.json:4:62");  // columns count characters, not bytes
  EXPECT_EQ(d.where("/eval/é/1/a~1b~0c"), "c.json:4:77");
  EXPECT_EQ(d.where("/eval/last"), "c.json:4:93");
}

TEST(Json, NamesTheNearestParentOfAnAbsentValue) {
  const Document d = parse_json("{\"train\": {\"length\": 64}}", "c.json");
  EXPECT_EQ(d.where("/train/lr/x"), "c.json:1:11");
  EXPECT_EQ(d.where("/model"), "c.json:1:1");
  EXPECT_EQ((Document{Json::object(), "value", {}}).where("/a/b"), "value");
}

TEST(Json, KeepsValuesAndTheOrderOfKeys) {
  const Json root = parse_json("{\"z\":[1,-2,0.5,\"t\\n\\u00e9\",true,null],\"a\":{},\"m\":[]}", "c").root;
  EXPECT_EQ(root.dump(), "{\"z\":[1,-2,0.5,\"t\\né\",true,null],\"a\":{},\"m\":[]}");
  EXPECT_EQ(parse_json("9223372036854775807", "c").root.get<std::int64_t>(), 9223372036854775807);
  EXPECT_EQ(parse_json(" 7", "c").root, 7);
}

// Fault 61.
TEST(Json, RefusesADuplicateKeyNamingItAndTheFirst) {
  EXPECT_EQ(refusal("{\n \"seed\": 1,\n \"seed\": 2}"),
            "c.json:3:2: /seed: duplicate key \"seed\" (the first is at c.json:2:10): remove one");
  EXPECT_THAT(refusal("{\"a\": [{\"factor\": 2, \"x\": {}, \"factor\": 2}]}"),
              AllOf(StartsWith("c.json:1:31: /a/0/factor: "), HasSubstr("duplicate key \"factor\"")));
  EXPECT_THAT(refusal("{\"a\": 1, \"\\u0061\": 2}"), HasSubstr("duplicate key \"a\""));
}

// Fault 61: the same key in two sibling objects, and in an object and its child, is fine.
TEST(Json, AcceptsOneKeyInSeveralObjects) {
  EXPECT_EQ(refusal("{\"a\": {\"factor\": 2}, \"b\": {\"factor\": 3}, \"factor\": {\"factor\": 4}}"), "");
}

// Fault 62.
TEST(Json, AByteOrderMarkChangesNothing) {
  const Document plain = parse_json("{\"seed\": 7}", "c.json"), marked = parse_json("\xEF\xBB\xBF{\"seed\": 7}", "c.json");
  EXPECT_EQ(plain.root, marked.root);
  EXPECT_EQ(plain.places, marked.places);
  EXPECT_EQ(refusal("\xEF\xBB\xBF\xEF\xBB\xBF{}"), "c.json:1:1: a stray byte order mark");
}

// Fault 63: comments are accepted; the rest is refused with line and column, in our words.
TEST(Json, RefusesRelaxedAndBrokenTextWithItsPlace) {
  EXPECT_EQ(refusal("{ // why\n \"a\": 1 /* because */ }\n// end"), "");
  EXPECT_EQ(refusal("{\n  \"a\": 1,\n}"), "c.json:3:1: trailing comma before }: remove it");
  EXPECT_EQ(refusal("[1, 2, /* x */ ]"), "c.json:1:16: trailing comma before ]: remove it");
  EXPECT_EQ(refusal("{\"a\": 1}\n{\"a\": 2}"), "c.json:2:1: text after the end of the JSON value: one file holds one value");
  EXPECT_EQ(refusal("{} rubbish"), "c.json:1:4: text after the end of the JSON value: one file holds one value");
  EXPECT_EQ(refusal("{\"a\": {\n\"b\": [1, 2"),
            "c.json:2:11: the text ends where a comma or ] was expected (cut off?); open since c.json:2:6");
  EXPECT_EQ(refusal("{\"a\": "), "c.json:1:7: the text ends where a value was expected (cut off?); open since c.json:1:1");
  EXPECT_EQ(refusal("{\"a\": \"cut"), "c.json:1:11: invalid string: missing closing quote");
  EXPECT_EQ(refusal(""), "c.json:1:1: the text is empty; JSON was expected");
  EXPECT_EQ(refusal(" // nothing\n"), "c.json:2:1: the text is empty; JSON was expected");
  EXPECT_EQ(refusal("{} /* open"), "c.json:1:11: invalid comment; missing closing '*/'");
}

TEST(Json, SaysWhatWasExpectedInstead) {
  EXPECT_EQ(refusal("{\"scheme\": rope}"),
            "c.json:1:12: found \"rope\" where a value was expected (a string needs double quotes)");
  EXPECT_EQ(refusal("{seed: 1}"),
            "c.json:1:2: found \"seed\" where a key in double quotes was expected (a string needs double quotes)");
  EXPECT_EQ(refusal("{'seed': 1}"), "c.json:1:2: strings and keys need double quotes, not single ones");
  EXPECT_EQ(refusal("{\"a\" \"b\"}"), "c.json:1:6: found a string where a colon after the key was expected");
  EXPECT_EQ(refusal("{\"a\": 1 \"b\": 2}"), "c.json:1:9: found a string where a comma or } was expected");
  EXPECT_EQ(refusal("[1 2]"), "c.json:1:4: found \"2\" where a comma or ] was expected");
  EXPECT_EQ(refusal("[1,,2]"), "c.json:1:4: found \",\" where a value was expected");
  EXPECT_EQ(refusal("[01]"), "c.json:1:3: found \"1\" where a comma or ] was expected");
  EXPECT_EQ(refusal("[1-2]"), "c.json:1:3: found \"-2\" where a comma or ] was expected");
  EXPECT_EQ(refusal("[NaN]"), "c.json:1:2: NaN is not JSON: a number must be finite");
  EXPECT_EQ(refusal("[1.]"), "c.json:1:4: invalid number; expected digit after '.'");
  EXPECT_THAT(refusal("[\"a\nb\"]"), HasSubstr("control character U+000A (LF) must be escaped"));
}

TEST(Json, NeverShowsTheParsersOwnExceptionText) {
  for (const char* text :
       {"{", "]", "{\"a\"}", "[1,]", "tru", "\"\\x\"", "\"\\ud800\"", "-", "1e999", "/", "{,}", "[}", "\x01", ":"}) {
    EXPECT_THAT(refusal(text), AllOf(StartsWith("c.json:1:"), Not(HasSubstr("json.exception")), Not(HasSubstr("syntax error"))));
  }
}

// Faults 68 and 124: a number no double holds is refused, in both directions.
TEST(Json, RefusesANumberBeyondTheRangeOfADouble) {
  EXPECT_EQ(refusal("{\"factor\": 1e400}"), "c.json:1:12: 1e400 is outside the range of a double (about ±1.8e308)");
  EXPECT_THAT(refusal("[0, -1e999]"), StartsWith("c.json:1:5: -1e999 is outside"));
  EXPECT_EQ(refusal("[1e308, 1e-400]"), "");
}

TEST(Json, RefusesBytesThatAreNoText) {
  EXPECT_THAT(refusal("{\"name\": \"a\xFF\"}"), AllOf(StartsWith("c.json:1:12: "), HasSubstr("ill-formed UTF-8 byte")));
  EXPECT_THAT(refusal("{\"\xC3\": 1}"), HasSubstr("ill-formed UTF-8 byte"));
  EXPECT_THAT(refusal("[\"\xED\xA0\x80\"]"), HasSubstr("ill-formed UTF-8 byte"));
  // nlohmann alone takes the NUL for the end and accepts what stands behind it.
  EXPECT_EQ(refusal(std::string_view("{}\0}", 4)), "c.json:1:3: a NUL byte: this is not a text file");
}

TEST(Json, RefusesAMillionOpenBracketsQuickly) {
  const auto start = std::chrono::steady_clock::now();
  const std::string array(1'000'000, '[');
  EXPECT_EQ(refusal(array), "c.json:1:65: nested more than 64 levels deep");
  std::string object;
  for (int i = 0; i < 100'000; ++i) object += "{\"a\":";
  EXPECT_EQ(refusal(object), "c.json:1:321: nested more than 64 levels deep");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(refusal(std::string(64, '[') + std::string(64, ']')), "");
}

TEST(Json, RefusesTooManyValuesAndBytes) {
  EXPECT_EQ(refusal("[1,2,3]", {.max_values = 4}), "");
  EXPECT_EQ(refusal("[1,2,3]", {.max_values = 3}), "c.json:1:6: more than 3 values");
  EXPECT_EQ(refusal("[1,2,3]", {.max_bytes = 6}), "c.json: 7 bytes; at most 6 are read");
}

TEST(Json, ReadsAnObjectOfManyKeysInLinearTime) {
  const std::clock_t start = std::clock();  // CPU time: a busy machine is no fault
  std::string text = "{\"first\": 0";
  for (int i = 0; i < 60'000; ++i) text += ",\"key" + std::to_string(i) + "\":1";
  EXPECT_EQ(parse_json(text + "}", "c").root.size(), 60'001u);
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 10);
}

TEST(Json, AnOverrideReplacesCreatesAndIndexes) {
  Document d = parse_json("{\"train\": {\"length\": 128}, \"eval\": {\"lengths\": [1, {\"x\": 2}]}, \"none\": null}", "c.json");
  apply_override(d, "/train/length=64");
  apply_override(d, "/model/position={\"scheme\":\"rope\"}");
  apply_override(d, "/model/position/base=5e5");
  apply_override(d, "/eval/lengths/1/x=\"a=b\"");
  apply_override(d, "/none/a~1b=true");
  EXPECT_EQ(d.root.dump(),
            "{\"train\":{\"length\":64},\"eval\":{\"lengths\":[1,{\"x\":\"a=b\"}]},\"none\":{\"a/b\":true},"
            "\"model\":{\"position\":{\"scheme\":\"rope\",\"base\":500000.0}}}");
  EXPECT_EQ(d.where("/train/length"), "--set /train/length=64");
  EXPECT_EQ(d.where("/model/position/scheme"), "--set /model/position={\"scheme\":\"rope\"}");
  EXPECT_EQ(d.where("/eval/lengths/0"), "c.json:1:49");
}

TEST(Json, AnOverrideForgetsThePlacesOfWhatItReplaces) {
  Document d = parse_json("{\"a\": {\"b\": 1, \"bc\": 2}, \"ab\": 3}", "c.json");
  apply_override(d, "/a={\"b\": 5}");
  EXPECT_EQ(d.where("/a/b"), "--set /a={\"b\": 5}");
  EXPECT_EQ(d.where("/ab"), "c.json:1:32");
}

TEST(Json, ARefusedOverrideSaysWhatToWrite) {
  const std::string text = "{\"model\": {\"position\": \"rope\"}, \"l\": [1, 2]}";
  EXPECT_EQ(override_refusal(text, "/model/position/scheme=rope"),
            "--set /model/position/scheme=rope: /model/position/scheme: the value is not JSON; a string needs double quotes: "
            "write --set '/model/position/scheme=\"rope\"'");
  EXPECT_THAT(override_refusal(text, "train/length=64"), HasSubstr("begins with /"));
  EXPECT_THAT(override_refusal(text, "=64"), HasSubstr("begins with /"));
  EXPECT_THAT(override_refusal(text, "/train/length"), HasSubstr("no = and value: for example --set /train/length=64"));
  EXPECT_THAT(override_refusal(text, "/train/length="), HasSubstr("no value after the ="));
  EXPECT_THAT(override_refusal(text, "/model/position/base=1"), HasSubstr("is inside \"rope\", which has no members"));
  EXPECT_THAT(override_refusal(text, "/l/2=1"), HasSubstr("\"2\" is not an index of a list of 2"));
  EXPECT_THAT(override_refusal(text, "/l/-1=1"), HasSubstr("\"-1\" is not an index"));
  EXPECT_THAT(override_refusal(text, "/l~2=1"), HasSubstr("~0"));
  EXPECT_THAT(override_refusal(text, "/x={\"a\":1,}"), HasSubstr("trailing comma"));
  EXPECT_THAT(override_refusal(text, "/x={\"a\":1,\"a\":2}"), HasSubstr("duplicate key \"a\""));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "/a";
  EXPECT_THAT(override_refusal(text, deep + "=1"), HasSubstr("nested too deeply"));
}

// Fault 124.
TEST(Json, WritesNoNumberThatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(dump_json(bad), std::logic_error);
    EXPECT_THROW(dump_json({{"cells", {{{"nll", bad}}}}}), std::logic_error);
    EXPECT_THROW(dump_json_line(Json::array({1, bad})), std::logic_error);
  }
  EXPECT_EQ(dump_json({{"nll", nullptr}, {"x", {1.0, 0.1, 1e300}}}),
            "{\n  \"nll\": null,\n  \"x\": [\n    1.0,\n    0.1,\n    1e+300\n  ]\n}\n");
  EXPECT_EQ(dump_json_line({{"path", "a\xFF"}}), "{\"path\":\"a\xEF\xBF\xBD\"}");
}

/// Makes the process' C and C++ locales German (decimal comma) while it lives.
class GermanLocale {
 public:
  GermanLocale() : cpp_(std::locale::global(std::locale(std::locale(), new Comma))) {
    if (std::setlocale(LC_ALL, "de_DE.UTF-8")) return;
    const std::string folder = testing::TempDir() + "posenc_locales";  // kept: making a locale takes seconds
    setenv("LOCPATH", folder.c_str(), 1);
    if (std::setlocale(LC_ALL, "de_DE.UTF-8")) return;
    std::filesystem::create_directories(folder);
    if (std::system(("localedef -i de_DE -f UTF-8 " + folder + "/de_DE.UTF-8 >/dev/null 2>&1").c_str()) != 0) return;
    std::setlocale(LC_ALL, "de_DE.UTF-8");
  }
  ~GermanLocale() {
    std::locale::global(cpp_);
    std::setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
  }
  bool c_locale_is_german() const { return std::localeconv()->decimal_point[0] == ','; }

 private:
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  std::locale cpp_;
};

// Fault 126.
TEST(Json, ReadsAndWritesTheSameNumbersUnderACommaLocale) {
  const GermanLocale german;
  if (!german.c_locale_is_german()) GTEST_SKIP() << "no de_DE locale here, and localedef cannot make one";
  const Document d = parse_json("{\"lr\": 0.5, \"steps\": 1234567, \"e\": [1.25e-3]}", "c.json");
  EXPECT_EQ(d.root["lr"].get<double>(), 0.5);
  EXPECT_EQ(dump_json_line(d.root), "{\"lr\":0.5,\"steps\":1234567,\"e\":[0.00125]}");
  EXPECT_EQ(d.where("/e/0"), "c.json:1:37");
}

TEST(Json, SuggestsANameThatIsNear) {
  const std::vector<std::string> names = {"lr", "steps", "warmup", "weight_decay", "grad_clip"};
  EXPECT_EQ(nearest_name("step", names), "steps");
  EXPECT_EQ(nearest_name("wramup", names), "warmup");  // one swap
  EXPECT_EQ(nearest_name("Weight-Decay", names), "weight_decay");
  EXPECT_EQ(nearest_name("num-steps", names), "steps");
  EXPECT_EQ(nearest_name("learning_rat", names), "lr");
  EXPECT_EQ(nearest_name("clip", names), "grad_clip");
  EXPECT_EQ(nearest_name("optimizer", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(1'000'000, 'x'), names), "");
}

TEST(Json, BriefCutsBetweenCharacters) {
  EXPECT_EQ(brief({{"a", 1}}), "{\"a\":1}");
  EXPECT_EQ(brief(std::string(100, 'x')), "\"" + std::string(59, 'x') + "…\"");
  EXPECT_EQ(brief(std::string(58, 'x') + "éé"), "\"" + std::string(58, 'x') + "…\"");
  EXPECT_EQ(brief("\x1B[31m"), "\"\\u001b[31m\"");  // no control sequence reaches a terminal
}

}  // namespace
}  // namespace posenc
