// `posenc report` and `posenc compare` on files made by hand, as a CI job uses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A run with cells at 128 and 512, in the words of contract.md, section 4: nll 1.5 and 2, so perplexities 4.481689 and 7.389056.
Json results_file() {
  const auto cell = [](int length, double nll, double ppl, double bits) {
    return Json{{"extension", "none"},
                {"length", length},
                {"protocol", "fixed_target"},
                {"window", length},
                {"stride", 64},
                {"targets", 8192},
                {"nll", nll},
                {"stderr", 0.01},
                {"ppl", ppl},
                {"bits_per_byte", bits},
                {"status", "ok"}};
  };
  return {{"schema", "posenc.results/1"},
          {"name", "rope"},
          {"scheme", "rope"},
          {"seed", 1},
          {"train_length", 128},
          {"unit", "byte"},
          {"parameters", 824576},
          {"status", "ok"},
          {"protocol_hash", "0123456789abcdef"},
          {"cells", {cell(128, 1.5, 4.4816890703380645, 2.1640425613334453), cell(512, 2, 7.38905609893065, 2.8853900817779268)}},
          {"by_position", Json::array()}};
}

/// Files of one test, and `compare` on them.
class CompareCommand : public ::testing::Test {
 protected:
  CompareCommand() : baseline_(write_config(scratch_ / "baseline.json", results_file())) {}

  Outcome against(const Json& candidate, std::vector<std::string> more = {}) {
    return against_text(dump_json(candidate), std::move(more));
  }
  Outcome against_text(const std::string& candidate, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"compare", baseline_, write_text(scratch_ / "candidate.json", candidate)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run({arguments});
  }
  std::string candidate_with(const std::string& what, const std::string& instead) {
    std::string text = dump_json(results_file());
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), instead);
  }

  Scratch scratch_;
  std::string baseline_;
};

TEST_F(CompareCommand, PassesTheSameTable) {
  const Outcome same = against(results_file());
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("verdict: ok: 2 cells compared"));
  EXPECT_THAT(same.err, IsEmpty());
}

// exp(0.04879) = 1.0500
TEST_F(CompareCommand, FailsATableMadeFivePercentWorseHoweverItWasMade) {
  Json both = results_file(), only_ppl = both, only_nll = both, only_one = both, better = both;
  for (int i : {0, 1}) {
    const double nll = both["cells"][i]["nll"], ppl = both["cells"][i]["ppl"];
    both["cells"][i]["nll"] = nll + 0.04879, both["cells"][i]["ppl"] = ppl * 1.05;
    only_ppl["cells"][i]["ppl"] = ppl * 1.05;
    only_nll["cells"][i]["nll"] = nll + 0.04879;
    better["cells"][i]["nll"] = nll - 0.04879, better["cells"][i]["ppl"] = ppl / 1.05;
  }
  only_one["cells"][1] = both["cells"][1];
  EXPECT_EQ(against(both).code, 1);
  EXPECT_EQ(against(only_ppl).code, 1);
  EXPECT_EQ(against(only_nll).code, 1);
  EXPECT_EQ(against(only_one).code, 1);
  EXPECT_EQ(against(better).code, 0);
  EXPECT_THAT(against(both).out, HasSubstr("verdict: regressed: 2 of 2 cells broke a gate (exit 1)"));
}

// Fault 130: the gate must not pass because there was nothing to look at. Each of these is exit 3, with the reason.
TEST_F(CompareCommand, CannotCompareWhatIsNotThereOrNotAlike) {
  Json other_protocol = results_file(), fewer = results_file(), null_nll = results_file(), null_ppl = results_file(),
       no_hash = results_file();
  other_protocol["protocol_hash"] = "fedcba9876543210";
  fewer["cells"].erase(1);
  null_nll["cells"][1]["nll"] = nullptr;
  null_ppl["cells"][1]["ppl"] = nullptr;
  no_hash.erase("protocol_hash");
  struct Case {
    Outcome outcome;
    const char* reason;
  };
  const Case cases[] = {
      {against(other_protocol), "protocol_hash differs"},
      {against(fewer), "no such cell"},
      {against(null_nll), "length 512"},
      {against(null_ppl), "length 512"},
      {against(no_hash), "protocol_hash"},
      {against_text(candidate_with("\"nll\": 2.0", "\"nll\": NaN")), "NaN"},
      {against_text(candidate_with("\"nll\": 2.0", "\"nll\": 1e999")), "outside the range"},
      {against_text("{\"schema\": \"posenc.res"), "candidate.json"},
      {against_text(""), "candidate.json"},
      {run({{"compare", scratch_ / "missing.json", baseline_}}), "missing.json"},
      {run({{"compare", baseline_, scratch_ / "missing.json"}}), "missing.json"},
      {against(results_file(), {"--fail-on", "ppl@333>+2%"}), "ppl@333>+2% matches no cell"},
      {against(results_file(), {"--fail-on", "ppl>+2%", "--fail-on", "ppl@alibi>+2%"}), "ppl@alibi>+2% matches no cell"}};
  for (const auto& [outcome, reason] : cases) {
    EXPECT_EQ(outcome.code, 3) << reason << "\n" << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(reason));
    EXPECT_THAT(outcome.out, HasSubstr("(exit 3)")) << reason;
  }
}

TEST_F(CompareCommand, HoldsTheCandidateToTheGatesGiven) {
  Json worse = results_file();
  worse["cells"][1]["nll"] = 2.03, worse["cells"][1]["ppl"] = 7.614086356;  // e^2.03: 3 % more
  EXPECT_EQ(against(worse, {"--fail-on", "ppl@512>+2%"}).code, 1);
  EXPECT_EQ(against(worse, {"--fail-on", "ppl@512>+4%"}).code, 0);
  EXPECT_EQ(against(worse, {"--fail-on", "ppl@128>+2%"}).code, 0);
  EXPECT_EQ(against(worse, {"--fail-on", "nll>+0.02"}).code, 1);
  EXPECT_EQ(against(worse, {"--fail-on", "ppl>7.5"}).code, 1);
  EXPECT_EQ(against(worse, {"--fail-on", "ppl>8"}).code, 0);
  const Outcome unreadable = against(worse, {"--fail-on", "ppl<2"});
  EXPECT_EQ(unreadable.code, 2);
  EXPECT_THAT(unreadable.err, HasSubstr("ppl@512>+2%"));
}

TEST_F(CompareCommand, SaysTheSameInEveryFormat) {
  Json worse = results_file();
  worse["cells"][1]["nll"] = 2.1, worse["cells"][1]["ppl"] = 8.166169913;
  for (const char* format : {"text", "md", "csv", "json"}) {
    const Outcome done = against(worse, {"--format", format});
    EXPECT_EQ(done.code, 1) << format;
    EXPECT_THAT(done.out, HasSubstr("regressed")) << format;
  }
  EXPECT_EQ(Json::parse(against(worse, {"--format", "json"}).out).at("exit"), 1);
  EXPECT_EQ(against(worse, {"--format", "html"}).code, 2);
}

TEST_F(CompareCommand, ProvesThatItsGateCanFail) {
  const Outcome proof = run({{"compare", "--self-test"}});
  EXPECT_EQ(proof.code, 0) << proof.out;
  EXPECT_THAT(proof.out, AllOf(HasSubstr("perplexity 5 % worse: exit 1"), HasSubstr("self-test passed"), Not(HasSubstr("FAIL"))));
}

TEST_F(CompareCommand, ReportsFilesAndFoldersInEveryFormat) {
  fs::create_directories(scratch_ / "sweep/a");
  fs::create_directories(scratch_ / "sweep/b");
  write_config(scratch_ / "sweep/a/results.json", results_file());
  write_config(scratch_ / "sweep/b/config.json",
               {{"name", "b"}, {"seed", 2}, {"model", {{"position", {{"scheme", "alibi"}}}}}, {"train", {{"length", 128}}}});
  write_config(scratch_ / "sweep/b/status.json", {{"status", "failed"}, {"reason", "no space left"}});
  for (const char* format : {"text", "md", "csv", "json"}) {
    const Outcome done = run({{"report", scratch_ / "sweep", "--format", format}});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_THAT(done.out, AllOf(HasSubstr("rope"), HasSubstr("alibi"), HasSubstr("failed"), HasSubstr("no space left")))
        << format;
    EXPECT_THAT(done.err, IsEmpty());
  }
  const Outcome text = run({{"report", baseline_}});
  EXPECT_THAT(text.out, AllOf(HasSubstr("4.482"), HasSubstr("7.389"), HasSubstr("0123456789abcdef")));
  EXPECT_EQ(Json::parse(run({{"report", baseline_, "--format", "json"}}).out).at("rows").at(1).at("nll_mean"), 2.0);
  EXPECT_EQ(run({{"report", scratch_ / "nothing"}}).code, 74);
  EXPECT_EQ(run({{"report", write_text(scratch_ / "cut.json", "{\"schema\"")}}).code, 65);
}

// Faults 85, 134: what -o names is replaced as a whole, or not at all.
TEST_F(CompareCommand, ReplacesTheOutputFileAsAWhole) {
  const fs::path out = write_text(scratch_ / "out.txt", "before\n");
  ASSERT_EQ(::chmod(out.c_str(), 0664), 0);
  struct stat old {
  }, now{};
  ASSERT_EQ(::stat(out.c_str(), &old), 0);
  const Outcome done = run({{"report", baseline_, "-o", out}});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, IsEmpty());
  EXPECT_EQ(read_file(out), run({{"report", baseline_}}).out);
  ASSERT_EQ(::stat(out.c_str(), &now), 0);
  EXPECT_NE(now.st_ino, old.st_ino);  // another file under the name: no reader saw half of it
  EXPECT_EQ(now.st_mode & 0777, 0664u);

  write_text(out, "before\n");
  EXPECT_EQ(run({.arguments = {"report", baseline_, "-o", out}, .largest_file = 100}).code, 74);
  EXPECT_EQ(run({{"report", baseline_, "--format", "html", "-o", out}}).code, 2);
  EXPECT_EQ(read_file(out), "before\n");
  const Outcome nowhere = run({{"report", baseline_, "-o", scratch_ / "no/folder/out.txt"}});
  EXPECT_EQ(nowhere.code, 74);
  EXPECT_THAT(nowhere.err, HasSubstr("no/folder/out.txt"));
  std::vector<std::string> names;
  for (const auto& [name, bytes] : snapshot(scratch_.path())) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("baseline.json", "out.txt"));  // no temporary file is left
}

// The verdict is the exit code, whether or not anyone reads the table.
TEST_F(CompareCommand, KeepsItsVerdictWhenNobodyReads) {
  Json worse = results_file();
  worse["cells"][1]["nll"] = 2.1, worse["cells"][1]["ppl"] = 8.166169913;
  const std::string candidate = write_config(scratch_ / "worse.json", worse);
  EXPECT_EQ(run({.arguments = {"compare", baseline_, candidate}, .unread = true}).code, 1);
  EXPECT_EQ(run({.arguments = {"compare", baseline_, baseline_}, .unread = true}).code, 0);
  EXPECT_EQ(run({.arguments = {"report", baseline_}, .unread = true}).code, 0);
  EXPECT_EQ(run({.arguments = {"compare", baseline_, baseline_}, .full = true}).code, 74);
}

}  // namespace
}  // namespace posenc
