// Finds the goldens and runs each kind's check on every file of it. That the checks can fail is shown in harness_test.cpp.
#include "golden/golden.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <set>

#include "core/files.h"
#include "core/scratch.h"

namespace posenc::golden {
namespace {

namespace fs = std::filesystem;

constexpr JsonLimits kLargeFiles{.max_bytes = std::size_t{1} << 28, .max_depth = 64, .max_values = 20'000'000};

std::string text(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.10g", x);
  return buffer;
}

void shape_of(const Json& nested, std::vector<std::int64_t>& shape) {
  if (!nested.is_array()) return;
  shape.push_back(static_cast<std::int64_t>(nested.size()));
  if (!nested.empty()) shape_of(nested.front(), shape);
}

void append(const Json& nested, const std::vector<std::int64_t>& shape, std::size_t depth, std::vector<double>& out) {
  if (depth == shape.size()) return out.push_back(nested.get<double>());
  if (!nested.is_array() || static_cast<std::int64_t>(nested.size()) != shape[depth]) throw std::runtime_error("ragged lists");
  for (const Json& inner : nested) append(inner, shape, depth + 1, out);
}

/// The indices of element `flat` of a tensor of that shape: "[1, 0, 5]".
std::string index_text(std::int64_t flat, at::IntArrayRef shape) {
  std::string indices;
  for (std::size_t d = shape.size(); d-- > 0; flat /= shape[d]) {
    indices = std::to_string(flat % shape[d]) + (indices.empty() ? "" : ", " + indices);
  }
  return indices.empty() ? "" : "[" + indices + "]";
}

}  // namespace

const Json& Case::inputs() const {
  const Json& outer = body->at("inputs");
  return outer.contains("inputs") ? outer.at("inputs") : outer;
}

std::vector<Case> cases(const Golden& golden) {
  if (!golden.root.contains("cases")) return {{"", &golden.root}};
  std::vector<Case> all;
  const Json& list = golden.root.at("cases");
  for (std::size_t i = 0; i < list.size(); ++i) all.push_back({"/cases/" + std::to_string(i), &list.at(i)});
  return all;
}

fs::path own_folder() { return fs::path(POSENC_SOURCE_DIR) / "tests/golden"; }

fs::path golden_folder() {
  const char* given = std::getenv("POSENC_GOLDENS");
  return given && *given ? fs::path(given) : own_folder();
}

Found find_goldens(const fs::path& folder) {
  std::set<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".json") files.insert(entry.path());
  }
  Found found;
  for (const fs::path& path : files) {
    try {
      Json root = load_json(path, kLargeFiles).root;
      if (root.contains("kind") && root.at("kind").is_string()) {
        found.goldens.push_back({path, root.at("kind").get<std::string>(), std::move(root)});
      } else if (root.contains("model_type") && fs::exists(path.parent_path() / "model.safetensors")) {
        found.configs.push_back(path);
      } else {
        found.strays.push_back(path.string() + ": has no \"kind\" and is no model's config");
      }
    } catch (const std::exception& error) {
      found.strays.push_back(path.string() + ": " + error.what());
    }
  }
  return found;
}

const Found& own_goldens() {
  static const Found found = golden_folder() == own_folder() ? goldens() : find_goldens(own_folder());
  return found;
}

const Found& goldens() {
  static const Found found = find_goldens(golden_folder());
  return found;
}

void Findings::near(const std::string& place, const Tensor& got, const Tensor& want, const Tolerance& tolerance) {
  const Tensor expected = want.to(torch::kFloat64);
  near_each(place, got, expected, expected.abs() * tolerance.rel + tolerance.abs);
}

void Findings::near(const std::string& place, double got, double want, const Tolerance& tolerance) {
  near(place, torch::tensor(got, torch::kFloat64), torch::tensor(want, torch::kFloat64), tolerance);
}

void Findings::near_each(const std::string& place, const Tensor& got, const Tensor& want, const Tensor& absolute) {
  const Tensor g = got.detach().to(torch::kFloat64).contiguous(), w = want.to(torch::kFloat64).contiguous();
  if (g.sizes() != w.sizes()) return fail(place, "shape " + c10::str(g.sizes()) + " is not " + c10::str(w.sizes()));
  if (g.numel() == 0) return fail(place, "holds no numbers");
  const Tensor allowed = (absolute + w.abs() * kRounding).expand_as(w).contiguous();
  const Tensor off = (g - w).abs();
  const double infinity = std::numeric_limits<double>::infinity();
  // NaN counts as infinitely far; 0 is within any tolerance, also of 0.
  const Tensor share = torch::where(off == 0, torch::zeros_like(off), (off / allowed).nan_to_num(infinity, infinity)).flatten();
  const auto at = share.argmax().item<std::int64_t>();
  const std::string where = place + index_text(at, w.sizes());
  compared_ += g.numel();
  const double worst = share[at].item<double>();
  if (worst > worst_) worst_ = worst, worst_place_ = where;
  if (worst <= 1) return;
  const auto number = [at](const Tensor& t) { return text(t.flatten()[at].item<double>()); };
  fail(where, number(g) + " is not " + number(w) + ": off by " + number(off) + ", allowed " + number(allowed) + "; " +
                  std::to_string((share > 1).sum().item<std::int64_t>()) + " of " + std::to_string(g.numel()) +
                  " numbers are off");
}

void Findings::equal(const std::string& place, const Json& got, const Json& want) {
  compared_ += want.is_array() ? static_cast<std::int64_t>(want.size()) : 1;
  if (got != want) fail(place, brief(got) + " is not " + brief(want));
}

void Findings::differs(const std::string& place, double got, double wrong, const Tolerance& tolerance) {
  ++compared_;
  if (!(std::abs(got - wrong) > tolerance.abs + (tolerance.rel + kRounding) * std::abs(wrong)))
    fail(place, text(got) + " is the wrong answer");
}

void Findings::fail(const std::string& place, const std::string& reason) { failures_.push_back(place + ": " + reason); }

bool Findings::leaves_out(const std::string& pointer) const {
  return std::any_of(left_out_.begin(), left_out_.end(),
                     [&](const auto& entry) { return (pointer + "/").rfind(entry.first + "/", 0) == 0; });
}

Tensor numbers(const Json& nested) {
  std::vector<std::int64_t> shape;
  shape_of(nested, shape);
  std::vector<double> flat;
  append(nested, shape, 0, flat);
  return torch::tensor(flat, torch::kFloat64).reshape(shape);
}

std::vector<double> number_list(const Json& list) { return list.get<std::vector<double>>(); }

const std::vector<Kind>& built_kinds() {
  static const std::vector<Kind> kinds = {
      {"alibi_slopes", check_alibi_slopes},
      {"bias_alibi", check_bias_alibi},
      {"bias_t5", check_bias_t5},
      {"t5_buckets", check_t5_buckets},
      {"sinusoidal", check_sinusoidal},
      {"rope_apply", check_rope_apply},
      {"rope_inv_freq", check_rope_inv_freq},
      {"rope_inv_freq_yarn_repo", check_rope_inv_freq_yarn_repo},
      {"xpos", check_xpos},
      {"bias_kerple", check_bias_kerple},
      {"bias_sandwich", check_bias_sandwich},
      {"bias_fire", check_bias_fire},
      {"dynamic_position_bias", check_dynamic_position_bias},
      {"attn_shaw", check_attn_shaw},
      {"attn_transformer_xl", check_attn_transformer_xl},
      {"attn_cope", check_attn_cope},
      {"attn_dape", check_attn_dape},
      {"attn_fox", check_attn_fox},
      {"perplexity_protocol", check_perplexity_protocol},
      {"train_trace", check_train_trace},
      {"model", check_model},
      {"perplexity_models", check_perplexity_models},
  };
  return kinds;
}

const Kind* find_kind(const std::string& name) {
  const auto at = std::find_if(built_kinds().begin(), built_kinds().end(), [&](const Kind& kind) { return name == kind.name; });
  return at == built_kinds().end() ? nullptr : &*at;
}

Findings examine(const Kind& kind, const Golden& golden) {
  try {
    Findings findings = kind.check(golden);
    if (findings.compared() == 0 && findings.left_out().empty()) findings.fail("", "nothing was compared");
    return findings;
  } catch (const std::exception& error) {
    Findings findings;
    findings.fail("", std::string("the check ended early: ") + error.what());
    return findings;
  }
}

namespace {

void say(const std::string& line) { std::cout << "[ golden   ] " << line << "\n"; }

std::map<std::string, int> unbuilt_kinds(const Found& found) {
  std::map<std::string, int> files;
  for (const Golden& golden : found.goldens) {
    if (!find_kind(golden.kind)) ++files[golden.kind];
  }
  return files;
}

}  // namespace

TEST(Golden, EveryFileOfAKindThatIsBuiltAgreesInEveryCase) {
  for (const Golden& golden : goldens().goldens) {
    const Kind* kind = find_kind(golden.kind);
    if (!kind) continue;
    const Findings findings = examine(*kind, golden);
    const std::string file = fs::relative(golden.path, golden_folder()).string();
    for (const std::string& failure : findings.failures()) ADD_FAILURE() << file << " " << failure;
    say(file + ": " + std::to_string(cases(golden).size()) + " cases, " + std::to_string(findings.compared()) +
        " numbers, the worst at " + text(findings.worst()) + " of its tolerance: " + findings.worst_place());
    for (const auto& [pointer, reason] : findings.left_out()) say("  left out " + pointer + ": " + reason);
  }
}

TEST(Golden, SomeFileIsFound) { EXPECT_FALSE(goldens().goldens.empty()) << "no golden in " << golden_folder(); }

TEST(Golden, KindsThatAreNotBuiltYetAreNamed) {
  for (const auto& [kind, files] : unbuilt_kinds(goldens())) {
    say("no check yet for kind " + kind + ": " + std::to_string(files) + (files == 1 ? " file" : " files"));
  }
  // A kind moves from here to built_kinds() with what it tests; a file of a kind that nobody thought of ends up here as well.
  std::vector<std::string> unbuilt;
  for (const auto& [kind, files] : unbuilt_kinds(own_goldens())) unbuilt.push_back(kind);
  EXPECT_THAT(unbuilt, testing::IsEmpty());
}

TEST(Golden, NoJsonFileIsPassedOver) {
  EXPECT_THAT(goldens().strays, testing::IsEmpty());
  const Scratch scratch;
  std::ofstream(scratch / "no_kind.json") << R"({"cases": []})";
  std::ofstream(scratch / "broken.json") << R"({"kind": )";
  std::ofstream(scratch / "new.json") << R"({"kind": "never_heard_of"})";
  const Found found = find_goldens(scratch.path());
  EXPECT_THAT(found.strays, testing::UnorderedElementsAre(testing::HasSubstr("no_kind.json: has no \"kind\""),
                                                          testing::HasSubstr("broken.json")));
  EXPECT_THAT(unbuilt_kinds(found), testing::ElementsAre(testing::Pair("never_heard_of", 1)));
}

TEST(Golden, EveryBuiltKindHasAFileOfOurOwn) {
  for (const Kind& kind : built_kinds()) {
    EXPECT_TRUE(std::any_of(own_goldens().goldens.begin(), own_goldens().goldens.end(), [&](const Golden& g) {
      return g.kind == kind.name;
    })) << kind.name;
  }
}

}  // namespace posenc::golden
