#include <regex>

#include "core/error.h"
#include "run/bench.h"

namespace posenc {
namespace {

/// A member of the table's names, and the scheme that stands for it.
struct Term {
  const char* name;
  const char* scheme;
};

constexpr Term kNone = {"none", "none"}, kBias = {"bias", "alibi"}, kRope = {"rope", "rope"};

void add_attention(std::vector<BenchCase>& cases, const std::string& group, AttentionCase c, const std::vector<Term>& terms,
                   const std::vector<std::int64_t>& lengths) {
  for (const Term& term : terms) {
    for (const std::int64_t length : lengths) {
      c.scheme = term.scheme;
      c.tokens = length;
      cases.push_back({"attention/" + group + "/" + term.name + "/H" + std::to_string(AttentionCase::kHeads) + "/D" +
                           std::to_string(AttentionCase::kWidth) + "/T" + std::to_string(length),
                       c});
    }
  }
}

std::vector<BenchCase> all_cases() {
  std::vector<BenchCase> cases;
  add_attention(cases, "forward", {.path = "fused"}, {kNone, kBias, kRope}, {512, 2048, 4096, 16384});
  add_attention(cases, "forward_backward", {.path = "fused", .backward = true}, {kNone, kBias, kRope}, {512, 2048});
  add_attention(cases, "blocked/forward", {.path = "blocked"}, {kNone, kBias}, {2048});
  add_attention(cases, "reference/forward_backward", {.path = "reference", .backward = true}, {kNone, kBias}, {512, 2048});
  for (const std::int64_t length : {64, 128, 256, 512}) {
    cases.push_back({"train/S/T" + std::to_string(length), TrainCase{BenchModel::kS, "rope", length}});
  }
  for (const std::int64_t length : {64, 512}) {
    cases.push_back({"train/M/T" + std::to_string(length), TrainCase{BenchModel::kM, "rope", length}});
  }
  for (const std::string scheme : {"none", "alibi", "t5", "fox", "shaw"}) {
    cases.push_back({"train/S/" + scheme + "/T128", TrainCase{BenchModel::kS, scheme, 128}});
  }
  for (const std::string scheme : {"none", "alibi", "rope"}) {
    for (const std::int64_t length : {1024, 4096, 16384, 131072}) {
      cases.push_back({"eval/S/" + scheme + "/T" + std::to_string(length), EvalCase{BenchModel::kS, scheme, length}});
    }
  }
  cases.push_back({"startup/help", StartupCase{}});
  return cases;
}

std::regex pattern_of(const std::string& filter) {
  try {
    return std::regex(filter);
  } catch (const std::regex_error& error) {
    throw ConfigError("--filter \"" + filter + "\" is not a regular expression: " + error.what());
  }
}

}  // namespace

const std::vector<BenchCase>& bench_cases() {
  static const std::vector<BenchCase> all = all_cases();
  return all;
}

std::vector<BenchCase> matching_bench_cases(const std::string& filter) {
  const std::regex pattern = pattern_of(filter);
  std::vector<BenchCase> found;
  for (const BenchCase& c : bench_cases()) {
    if (std::regex_search(c.name, pattern)) found.push_back(c);
  }
  if (found.empty()) throw ConfigError("--filter \"" + filter + "\" matches no benchmark; posenc bench --list names them");
  return found;
}

}  // namespace posenc
