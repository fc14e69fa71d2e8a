// posenc bench: what it offers, what it refuses, and the members of its JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;

std::set<std::string> members(const Json& object) {
  std::set<std::string> names;
  for (const auto& item : object.items()) names.insert(item.key());
  return names;
}

/// The benchmark of that name in a document of bench.
Json benchmark(const Json& document, const std::string& name) {
  for (const Json& b : document.at("benchmarks")) {
    if (b.at("name") == name) return b;
  }
  ADD_FAILURE() << "no benchmark " << name;
  return {};
}

TEST(Bench, HelpNamesTheOptions) {
  const Outcome help = run({{"bench", "--help"}});
  EXPECT_EQ(help.code, 0);
  for (const char* option : {"--filter", "--list", "--json", "--repetitions", "--min-time"}) {
    EXPECT_THAT(help.out, HasSubstr(option));
  }
}

TEST(Bench, ListsEveryNameOnceAndThoseThatTheFilterIsFoundIn) {
  const std::vector<std::string> all = lines_of(run({{"bench", "--list"}}).out);
  EXPECT_THAT(std::set<std::string>(all.begin(), all.end()), SizeIs(all.size()));
  EXPECT_THAT(
      all, IsSupersetOf({"attention/forward/bias/H8/D64/T16384", "attention/forward_backward/rope/H8/D64/T2048",
                         "attention/blocked/forward/none/H8/D64/T2048", "attention/reference/forward_backward/bias/H8/D64/T512",
                         "train/S/T64", "train/M/T512", "train/S/fox/T128", "eval/S/alibi/T131072", "startup/help"}));
  EXPECT_THAT(lines_of(run({{"bench", "--list", "--filter", "^train/M/.*64$"}}).out), ::testing::ElementsAre("train/M/T64"));
}

TEST(Bench, RefusesAFilterThatMatchesNothingOrIsNone) {
  const Outcome nothing = run({{"bench", "--filter", "attention/sideways"}});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.out, IsEmpty());
  EXPECT_THAT(nothing.err, AllOf(HasSubstr("\"attention/sideways\" matches no benchmark"), HasSubstr("bench --list")));
  const Outcome none = run({{"bench", "--filter", "(attention"}});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("\"(attention\" is not a regular expression"));
  EXPECT_EQ(run({{"bench", "--repetitions", "0"}}).code, 2);
  EXPECT_EQ(run({{"bench", "--min-time", "0"}}).code, 2);
}

TEST(Bench, WritesOneJsonDocumentWithTheMembersThatHaveAMeaning) {
  const std::string filter =
      "^(attention/forward_backward/bias/H8/D64/T512|attention/blocked/forward/none/H8/D64/T2048|train/S/T64|eval/S/rope/T1024|"
      "startup/help)$";
  const Outcome done =
      run({{"bench", "--filter", filter, "--min-time", "0.01", "--repetitions", "2", "--threads", "2", "--json"}});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json json = parse_json(done.out, "stdout").root;
  EXPECT_EQ(members(json), (std::set<std::string>{"schema", "posenc", "cpu", "simd", "kernels", "threads", "blas", "load_average",
                                                  "sgemm_gflops_one_thread", "benchmarks"}));
  EXPECT_EQ(json["schema"], "posenc.bench/1");
  EXPECT_EQ(json["threads"], 2);
  EXPECT_THAT(json["load_average"], SizeIs(3));
  EXPECT_THAT(json["benchmarks"], SizeIs(5));

  const std::set<std::string> times = {"name", "threads", "seconds", "seconds_min", "seconds_max"};
  const auto with = [&](std::set<std::string> more) {
    more.insert(times.begin(), times.end());
    return more;
  };
  const Json fused = benchmark(json, "attention/forward_backward/bias/H8/D64/T512");
  EXPECT_EQ(members(fused), with({"gflops", "share_of_sgemm"}));
  EXPECT_LE(fused["seconds_min"], fused["seconds"]);
  EXPECT_LE(fused["seconds"], fused["seconds_max"]);
  // 7 products of 2·8·64 operations for each of the 512·513/2 pairs of a query and a key that it sees.
  EXPECT_NEAR(fused["gflops"].get<double>() * fused["seconds"].get<double>(), 0.941359104, 1e-6);
  EXPECT_NEAR(fused["share_of_sgemm"].get<double>() * 2 * json["sgemm_gflops_one_thread"].get<double>(),
              fused["gflops"].get<double>(), 1e-6 * fused["gflops"].get<double>());
  EXPECT_EQ(benchmark(json, "attention/blocked/forward/none/H8/D64/T2048")["threads"], 1);
  const Json train = benchmark(json, "train/S/T64");
  EXPECT_EQ(members(train), with({"gflops", "share_of_sgemm", "tokens_per_s"}));
  EXPECT_NEAR(train["tokens_per_s"].get<double>() * train["seconds"].get<double>(), 4096, 1e-3);
  EXPECT_EQ(members(benchmark(json, "eval/S/rope/T1024")), with({"gflops", "share_of_sgemm", "tokens_per_s", "peak_rss_bytes"}));
  EXPECT_EQ(members(benchmark(json, "startup/help")), times);
}

TEST(Bench, ShowsATableByDefault) {
  const Outcome done = run({{"bench", "--filter", "startup", "--min-time", "0.01", "--repetitions", "1"}});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("benchmark"), HasSubstr("median"), HasSubstr("startup/help"), HasSubstr("sgemm")));
}

}  // namespace
}  // namespace posenc
