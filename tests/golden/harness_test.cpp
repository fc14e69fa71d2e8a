// That the checks of goldens can fail: a number that is off by a little must not pass.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/scratch.h"
#include "golden/golden.h"

namespace posenc::golden {
namespace {

namespace fs = std::filesystem;

/// Pointers of one number out of every list of numbers under `node`, and of every number that stands alone.
void collect_numbers(const Json& node, const std::string& pointer, std::vector<std::string>& out) {
  if (node.is_number()) {
    out.push_back(pointer);
  } else if (node.is_object()) {
    for (const auto& [key, value] : node.items()) collect_numbers(value, join_pointer(pointer, key), out);
  } else if (node.is_array() && !node.empty()) {
    if (node.front().is_object()) {
      for (std::size_t i = 0; i < node.size(); ++i) collect_numbers(node.at(i), pointer + "/" + std::to_string(i), out);
      return;
    }
    // One of the middle, then the first of each inner list: key 0, which every query sees.
    std::size_t at = node.size() / 2;
    while (at < node.size() && node.at(at).is_null()) ++at;
    std::string place = pointer + "/" + std::to_string(at);
    const Json* inner = &node.at(at);
    for (; inner->is_array(); inner = &inner->front()) place += "/0";
    if (inner->is_number()) out.push_back(place);
  }
}

std::vector<std::string> expected_numbers(const Golden& golden) {
  std::vector<std::string> pointers;
  for (const Case& one : cases(golden)) collect_numbers(one.expected(), one.pointer + "/expected", pointers);
  return pointers;
}

/// The golden with one expected number off by a little: one more for an integer, about a thousandth otherwise.
Golden perturbed(const Golden& golden, const std::string& pointer) {
  Golden copy = golden;
  Json& value = copy.root.at(Json::json_pointer(pointer));
  if (value.is_number_integer()) value = value.get<std::int64_t>() + 1;
  else value = value.get<double>() + 1e-3 * (std::abs(value.get<double>()) + 1);
  return copy;
}

/// POSENC_GOLDENS set to a folder for as long as this lives.
class GoldenFolder {
 public:
  explicit GoldenFolder(const fs::path& folder) : before_(golden_folder()), was_set_(std::getenv("POSENC_GOLDENS")) {
    ::setenv("POSENC_GOLDENS", folder.c_str(), 1);
  }
  ~GoldenFolder() {
    if (was_set_) ::setenv("POSENC_GOLDENS", before_.c_str(), 1);
    else ::unsetenv("POSENC_GOLDENS");
  }
  GoldenFolder(const GoldenFolder&) = delete;
  GoldenFolder& operator=(const GoldenFolder&) = delete;

 private:
  fs::path before_;
  bool was_set_;
};

}  // namespace

TEST(GoldenHarness, AnyExpectedNumberThatIsOffIsDetected) {
  for (const Golden& golden : own_goldens().goldens) {
    const Kind* kind = find_kind(golden.kind);
    if (!kind) continue;
    const Findings plain = examine(*kind, golden);
    for (const std::string& pointer : expected_numbers(golden)) {
      if (plain.leaves_out(pointer)) continue;
      EXPECT_FALSE(examine(*kind, perturbed(golden, pointer)).failures().empty())
          << golden.path << " " << pointer << " is compared with nothing";
    }
  }
}

TEST(GoldenHarness, APerturbedFileInAnotherFolderIsDetectedForEachKind) {
  for (const Kind& kind : built_kinds()) {
    const auto at = std::find_if(own_goldens().goldens.begin(), own_goldens().goldens.end(), [&](const Golden& g) {
      return g.kind == kind.name && !examine(kind, g).leaves_out(expected_numbers(g).front());
    });
    ASSERT_NE(at, own_goldens().goldens.end()) << kind.name;
    const Scratch scratch;
    const fs::path from = at->path.parent_path();
    for (const auto& entry : fs::recursive_directory_iterator(from)) {  // what lies beside and below it: weights, configs
      const bool beside = entry.path().extension() == ".safetensors" || entry.path().filename() == "config.json";
      const fs::path to = scratch / fs::relative(entry.path(), from).string();
      if (beside) fs::create_directories(to.parent_path()), fs::copy(entry.path(), to);
    }
    const std::string name = at->path.filename().string();
    const auto detected = [&](const Golden& golden) {
      std::ofstream(scratch / name) << dump_json(golden.root);
      const GoldenFolder elsewhere(scratch.path());
      const Found found = find_goldens(golden_folder());
      EXPECT_EQ(found.goldens.size(), 1u) << kind.name;
      return !examine(kind, found.goldens.at(0)).failures().empty();
    };
    EXPECT_FALSE(detected(*at)) << kind.name;
    EXPECT_TRUE(detected(perturbed(*at, expected_numbers(*at).front()))) << kind.name;
  }
}

TEST(GoldenHarness, AMissingKeyIsAFailureAndNotAPass) {
  for (const Kind& kind : built_kinds()) {
    const Findings findings = examine(kind, {"x.json", kind.name, Json::object({{"kind", kind.name}})});
    EXPECT_FALSE(findings.failures().empty()) << kind.name;
  }
}

}  // namespace posenc::golden
