#include "report/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "core/error.h"

namespace posenc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Table small() { return {"Title", {"scheme", "128"}, {{"rope", "4.537"}, {"alibi", "12.01"}}, {Align::kLeft}, {"A note."}}; }

/// Pipes that end a cell in GitHub's Markdown: those without a backslash before them.
int cell_pipes(const std::string& line) {
  int count = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') ++i;
    else if (line[i] == '|') ++count;
  }
  return count;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Table, PadsTextWithBlanksAndAlignsByColumn) {
  EXPECT_EQ(render(small(), "text"),
            "Title\n\n"
            "scheme    128\n"
            "rope    4.537\n"
            "alibi   12.01\n"
            "\n  A note.\n");
}

TEST(Table, AlignsByDisplayWidthNotBytes) {
  Table table{"",
              {"name", "n"},
              {{"na\u00efve", "1"}, {"e\u0301", "2"}, {"\u8a9e\u8a9e", "3"}, {"4.5 \u00b1 0.1", "4"}},
              {Align::kLeft},
              {}};
  EXPECT_EQ(render(table, "text"),
            "name       n\n"
            "na\u00efve      1\n"
            "e\u0301          2\n"
            "\u8a9e\u8a9e       3\n"
            "4.5 \u00b1 0.1  4\n");
}

TEST(Table, NeutralisesControlCharactersAndBrokenUtf8) {
  Table table{
      "", {"name"}, {{"a\x1b[31mb"}, {"c\r\nd"}, {"\xff\xc3(\xe2\x82"}, {"\u202eabc"}, {"\xc2\x9bx"}}, {Align::kLeft}, {}};
  EXPECT_EQ(render(table, "text"),
            "name\n"
            "a\ufffd[31mb\n"
            "c  d\n"
            "\ufffd\ufffd(\ufffd\ufffd\n"
            "\ufffdabc\n"
            "\ufffdx\n");
}

TEST(Table, WritesMarkdownWithAlignment) {
  EXPECT_EQ(render(small(), "md"),
            "### Title\n\n"
            "| scheme | 128 |\n"
            "|---|--:|\n"
            "| rope | 4.537 |\n"
            "| alibi | 12.01 |\n"
            "\n- A note.\n");
}

// Fault 128: a pipe, newline or backtick in a name breaks the table.
TEST(Table, KeepsEveryMarkdownRowWholeWhateverTheNames) {
  Table table{"",
              {"name", "n"},
              {{"a|b", "1"}, {"a\nb", "2"}, {"a`b", "3"}, {"a\\", "4"}, {"a\\|b", "5"}, {"<script>", "6"}},
              {Align::kLeft},
              {}};
  const auto lines = lines_of(render(table, "md"));
  ASSERT_EQ(lines.size(), 8u);
  for (const std::string& line : lines) EXPECT_EQ(cell_pipes(line), 3) << line;
  EXPECT_EQ(lines[2], R"(| a\|b | 1 |)");
  EXPECT_EQ(lines[3], "| a b | 2 |");
  EXPECT_EQ(lines[4], R"(| a\`b | 3 |)");
  EXPECT_EQ(lines[5], R"(| a\\ | 4 |)");
  EXPECT_EQ(lines[6], R"(| a\\\|b | 5 |)");
  EXPECT_EQ(lines[7], R"(| \<script> | 6 |)");
}

// Fault 128, the CSV half; quoting as RFC 4180 section 2, rules 5 to 7.
TEST(Table, QuotesCsvAndLeavesTitleAndNotesOut) {
  Table table{"Title", {"name", "n"}, {{"a|b", "1"}, {"a,b", "2"}, {"a\nb", "3"}, {"say \"x\"", "4"}}, {}, {"note"}};
  EXPECT_EQ(render(table, "csv"), "name,n\na|b,1\n\"a,b\",2\n\"a\nb\",3\n\"say \"\"x\"\"\",4\n");
}

TEST(Table, GuardsCsvAgainstFormulasButNotNumbers) {
  Table table{"", {"v"}, {{"=cmd()"}, {"+2%"}, {"-x"}, {"@A1"}, {"-1.5"}, {"-2e-7"}, {"=1,2"}}, {}, {}};
  EXPECT_EQ(render(table, "csv"), "v\n'=cmd()\n'+2%\n'-x\n'@A1\n-1.5\n-2e-7\n\"'=1,2\"\n");
}

TEST(Table, RefusesAFormatNamingTheOnesThereAre) {
  for (const char* format : {"html", "latex", "", "TEXT"}) {
    try {
      require_format(format);
      FAIL() << format;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("text, md, csv, json"));
    }
  }
  EXPECT_NO_THROW(require_format("json"));
}

TEST(Table, ShowsAboutFourDigits) {
  EXPECT_EQ(short_number(4.53716, 0.04628), "4.537 \u00b1 0.046");
  EXPECT_EQ(short_number(45.3716), "45.37");
  EXPECT_EQ(short_number(453.716), "453.7");
}

// Fault 50: a huge perplexity has no digits worth reading; the machine formats keep them.
TEST(Table, ShowsAPerplexityAboveAThousandAsSuch) {
  EXPECT_EQ(short_perplexity(1000.0, 2.0), "1000.0 \u00b1 2.0");
  EXPECT_EQ(short_perplexity(1000.1, 2.0), ">1e3");
  EXPECT_EQ(short_perplexity(std::nullopt), ">1e3");
  EXPECT_EQ(exact_number(2.5e43), "2.5e+43");
  EXPECT_EQ(exact_number(std::nullopt), "");
}

}  // namespace
}  // namespace posenc
