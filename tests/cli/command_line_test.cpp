// What holds for every command: help, refusals, streams, colours. None of it loads LibTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

/// The subcommands as `posenc --help` lists them.
std::vector<std::string> subcommands() {
  std::vector<std::string> names;
  bool below = false;
  for (const std::string& line : lines_of(run({{"--help"}}).out)) {
    if (below && line.size() > 2 && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
    if (line == "Subcommands:") below = true;
  }
  return names;
}

/// The shared libraries the dynamic loader opened, from the start to the end of the command and of what it turned into.
std::string libraries_of(Command command) {
  Scratch scratch;
  command.environment["LD_DEBUG"] = "files";
  command.environment["LD_DEBUG_OUTPUT"] = scratch / "ld";
  run(command);
  std::string log;
  for (const auto& [file, bytes] : snapshot(scratch.path())) log += bytes;
  return log;
}

/// Exit 2, something said on stderr, nothing on stdout and nothing written where it ran; LibTorch was not loaded.
Outcome expect_refused(const std::vector<std::string>& arguments, const fs::path& directory) {
  const auto before = snapshot(directory);
  const Outcome refused = run({.arguments = arguments, .directory = directory});
  EXPECT_EQ(refused.code, 2) << ::testing::PrintToString(arguments) << refused.err;
  EXPECT_THAT(refused.out, IsEmpty());
  EXPECT_THAT(refused.err, Not(IsEmpty()));
  expect_untouched(directory, before);
  return refused;
}

TEST(CommandLine, HelpOfEveryCommandExitsZeroAndLoadsNoLibTorch) {
  const std::vector<std::string> commands = subcommands();
  ASSERT_THAT(commands, IsSupersetOf({"train", "eval", "sweep", "report", "compare", "schemes", "schema", "plan", "doctor"}));
  for (const std::string& command : commands) {
    const Outcome help = run({{command, "--help"}});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, AllOf(HasSubstr("Usage: posenc " + command), HasSubstr("--help"))) << command;
    EXPECT_THAT(help.err, IsEmpty()) << command;
  }
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"train", "--help"}, {"schemes"}, {"schema"}, {"--version"}}) {
    EXPECT_THAT(libraries_of({arguments}), AllOf(HasSubstr("libstdc++"), Not(HasSubstr("libtorch")))) << arguments[0];
  }
}

// Contract, section 2: under 50 ms for what needs no tensor. The limit is on the time it computes, so that a busy machine does
// not matter, and half of what loading LibTorch alone takes.
TEST(CommandLine, AnswersAtOnceWhenNoTensorIsNeeded) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"schemes"}, {"schema"}, {"train", "--config", "/nonexistent"}}) {
    double best = 1e9, cpu = 1e9;
    for (int i = 0; i < 3; ++i) {
      const Outcome done = run({arguments});
      best = std::min(best, done.seconds);
      cpu = std::min(cpu, done.cpu_seconds);
    }
    std::printf("  posenc %s: %.0f ms, of which %.0f ms computing\n", arguments[0].c_str(), best * 1e3, cpu * 1e3);
    EXPECT_LT(cpu, 0.3) << arguments[0];
  }
}

TEST(CommandLine, RefusesUnknownFlagsCommandsAndValuesWithExitTwo) {
  const Scratch scratch;
  const std::string config = write_config(scratch / "tiny.json", tiny_config("text.txt"));
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"trian"},
                                                       {"--colour", "never", "schemes"},
                                                       {"--color", "pink", "schemes"},
                                                       {"--log-level", "loud", "schemes"},
                                                       {"--threads", "0", "train", "--config", config},
                                                       {"--threads", "two", "train", "--config", config},
                                                       {"train"},
                                                       {"train", "--config", config, "--stpes", "3"},
                                                       {"train", "--config", config, "stray"},
                                                       {"train", "--config", config, "--resume", "--overwrite"},
                                                       {"train", "--config", config, "--out"},
                                                       {"eval"},
                                                       {"sweep", "--config", config, "--jobs", "0"},
                                                       {"sweep", "--config", config, "--keep-going", "--fail-fast"},
                                                       {"report"},
                                                       {"compare", "--format", "text"},
                                                       {"schemes", "--format", "html"},
                                                       {"plan", "--config", config, "--format", "csv"},
                                                       {"doctor", "--format", "csv"}};
  for (const auto& arguments : wrong) expect_refused(arguments, scratch.path());
  EXPECT_THAT(expect_refused({"train", "--config", config, "--stpes", "3"}, scratch.path()).err, HasSubstr("--stpes"));
}

// Faults 59, 64, 66: every problem of a file at once, each with its place, before anything is loaded or written.
TEST(CommandLine, ListsEveryProblemOfAConfigWithLineAndColumn) {
  const Scratch scratch;
  write_text(scratch / "wrong.json",
             "{\n"
             "  \"seeed\": 3,\n"
             "  \"model\": {\"layers\": 0, \"d_model\": 16.5, \"position\": {\"scheme\": \"rope\", \"bas\": 3}},\n"
             "  \"train\": {\"learning_rate\": 0.1,\n"
             "            \"length\": \"8\"}\n"
             "}\n");
  for (const char* command : {"train", "plan"}) {
    const Outcome refused = expect_refused({command, "--config", "wrong.json"}, scratch.path());
    EXPECT_THAT(lines_of(refused.err),
                ElementsAre(R"(posenc: wrong.json:2:12: /seeed: unknown key "seeed" (did you mean "seed"?))",     //
                            "wrong.json:3:23: /model/layers: 0 is below 1",                                       //
                            "wrong.json:3:37: /model/d_model: 16.5 is not an integer",                            //
                            R"(wrong.json:3:81: /model/position/bas: unknown key "bas" (did you mean "base"?))",  //
                            R"(wrong.json:4:30: /train/learning_rate: unknown key "learning_rate" (did you mean "lr"?))",
                            R"(wrong.json:5:23: /train/length: "8" is not an integer (write 8 without quotes))"));
  }
  EXPECT_THAT(libraries_of({.arguments = {"train", "--config", "wrong.json"}, .directory = scratch.path()}),
              Not(HasSubstr("libtorch")));
}

// Faults 61, 63: syntax.
TEST(CommandLine, NamesThePlaceOfASyntaxError) {
  const Scratch scratch;
  const auto refusal = [&](const std::string& text) {
    write_text(scratch / "c.json", text);
    return expect_refused({"train", "--config", "c.json"}, scratch.path()).err;
  };
  EXPECT_THAT(refusal("{\"seed\": 1,\n \"seed\": 2, \"model\": {\"position\": \"rope\"}}"),
              StartsWith("posenc: c.json:2:2: /seed: duplicate key \"seed\""));
  EXPECT_THAT(refusal("{\"model\": {\"position\": \"rope\"},\n}"), StartsWith("posenc: c.json:2:1: trailing comma"));
  EXPECT_THAT(refusal("{\"model\": {\"position\": \"rope\"}}\n{}"), StartsWith("posenc: c.json:2:1: text after the end"));
  EXPECT_THAT(refusal("{\"model\": {\"pos"), StartsWith("posenc: c.json:1:"));
  EXPECT_THAT(refusal(""), HasSubstr("c.json"));
}

TEST(CommandLine, RefusesAnOverrideThatDoesNotFit) {
  const Scratch scratch;
  write_config(scratch / "c.json", tiny_config("text.txt"));
  const auto refusal = [&](const std::string& assignment) {
    return expect_refused({"train", "--config", "c.json", "--set", assignment}, scratch.path()).err;
  };
  EXPECT_EQ(refusal("/train/lenght=64"),
            "posenc: --set /train/lenght=64: /train/lenght: unknown key \"lenght\" (did you mean \"length\"?)\n");
  EXPECT_EQ(refusal("/model/heads=0"), "posenc: --set /model/heads=0: /model/heads: 0 is below 1\n");
  EXPECT_THAT(refusal("train/length=64"), HasSubstr("a JSON pointer begins with /"));
  EXPECT_THAT(refusal("/train/length"), HasSubstr("--set /train/length=64"));
  EXPECT_THAT(refusal("/model/position=rope"), HasSubstr("--set '/model/position=\"rope\"'"));
  EXPECT_THAT(refusal("/model/position=\"rop\""), HasSubstr("did you mean \"rope\"?"));
}

// Contract, section 3: [A-Za-z0-9._-]{1,100}; the name is a folder below runs/.
TEST(CommandLine, RefusesARunNameThatIsNoPlainFolderName) {
  const Scratch scratch;
  const std::string config = write_config(scratch / "c.json", tiny_config("text.txt"));
  for (const std::string& name :
       {std::string("../x"), std::string(300, 'a'), std::string(101, 'a'), std::string("-x"), std::string("."), std::string(".."),
        std::string("a/b"), std::string("a b"), std::string("a\\nb"), std::string("\u00e9")}) {
    EXPECT_THAT(expect_refused({"train", "--config", "c.json", "--set", "/name=\"" + name + "\""}, scratch.path()).err,
                HasSubstr("run name"))
        << name;
  }
  for (const char* stem : {"-x", "a b", "(1)"}) {  // the default name is the file's stem
    write_config(scratch / (std::string(stem) + ".json"), tiny_config("text.txt"));
    EXPECT_THAT(expect_refused({"train", "--config", std::string("./") + stem + ".json"}, scratch.path()).err,
                HasSubstr("run name"))
        << stem;
  }
}

TEST(CommandLine, NamesAConfigFileThatCannotBeRead) {
  const Outcome missing = run({{"train", "--config", "/nonexistent/rope.json"}});
  EXPECT_EQ(missing.code, 74);
  EXPECT_EQ(missing.err, "posenc: cannot open /nonexistent/rope.json: No such file or directory\n");
  const Outcome folder = run({{"train", "--config", "/"}});
  EXPECT_EQ(folder.code, 74);
  EXPECT_THAT(folder.err, HasSubstr("it is a directory"));
}

/// Three cells whose shape is wrong: work that logs at once and starts nothing.
fs::path invalid_sweep(const Scratch& scratch) {
  Json base = tiny_config("text.txt");
  base["model"]["heads"] = 3;
  return write_config(scratch / "sweep.json", {{"base", base}, {"vary", {{"/seed", {1, 2, 3}}}}});
}

// Fault 127.
TEST(CommandLine, ColoursOnlyATerminalAndNotUnderNoColor) {
  const Scratch scratch;
  const fs::path sweep = invalid_sweep(scratch);
  int count = 0;
  const auto logged = [&](bool terminal, std::map<std::string, std::string> environment, const std::string& wish) {
    Command command{{"--color", wish, "sweep", "--config", sweep, "--out", scratch / std::to_string(++count)}};
    command.terminal = terminal;
    command.environment = std::move(environment);
    const Outcome done = run(command);
    EXPECT_EQ(done.code, 5);
    EXPECT_THAT(done.out, Not(HasSubstr("\x1b")));
    EXPECT_THAT(done.err, HasSubstr("3 does not divide d_model 16"));
    return done.err;
  };
  const std::string escape = "\x1b[";
  EXPECT_THAT(logged(true, {}, "auto"), HasSubstr(escape));
  EXPECT_THAT(logged(true, {{"NO_COLOR", "1"}}, "auto"), Not(HasSubstr(escape)));
  EXPECT_THAT(logged(true, {{"NO_COLOR", ""}}, "auto"), HasSubstr(escape));  // no-color.org: when not an empty string
  EXPECT_THAT(logged(true, {}, "never"), Not(HasSubstr(escape)));
  EXPECT_THAT(logged(false, {}, "auto"), Not(HasSubstr(escape)));
  EXPECT_THAT(logged(false, {}, "always"), HasSubstr(escape));
}

TEST(CommandLine, SaysAsMuchAsTheLogLevelAsksFor) {
  const Scratch scratch;
  const fs::path sweep = invalid_sweep(scratch);
  const auto lines = [&](const std::string& level) {
    return lines_of(run({{"--log-level", level, "sweep", "--config", sweep, "--out", scratch / level}}).err);
  };
  EXPECT_THAT(lines("info"), Contains(StartsWith("info: ")));
  EXPECT_THAT(lines("error"), AllOf(Contains(StartsWith("error: ")), Not(Contains(StartsWith("info: ")))));
  EXPECT_THAT(lines("off"), IsEmpty());
}

TEST(CommandLine, EndsQuietlyWhenNobodyReadsAndReportsAFullDisk) {
  for (const char* command : {"schemes", "schema"}) {
    const Outcome unread = run({.arguments = {command}, .unread = true});  // | head
    EXPECT_EQ(unread.code, 0) << command;
    EXPECT_THAT(unread.err, IsEmpty());
    const Outcome full = run({.arguments = {command}, .full = true});
    EXPECT_EQ(full.code, 74) << command;
    EXPECT_EQ(full.err, "posenc: stdout: No space left on device\n");
  }
  const Outcome help = run({.arguments = {"--help"}, .unread = true});  // as any tool: ended by the pipe, or done
  EXPECT_TRUE(help.code == 0 || help.signal == SIGPIPE) << help.code;
}

}  // namespace
}  // namespace posenc
