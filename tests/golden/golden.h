#pragma once
// The goldens (see README.md here): numbers made by peers' code. Every *.json with a "kind" is one; its kind decides what checks
// it. A check reads all parameters from the file, so that another set of files of the same kinds, in the folder POSENC_GOLDENS,
// works as well.
//
//   for (const Golden& golden : find_goldens(golden_folder()).goldens)
//     if (const Kind* kind = find_kind(golden.kind)) kind->check(golden).failures();

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/json.h"

namespace posenc::golden {

using torch::Tensor;

struct Golden {
  std::filesystem::path path;
  std::string kind;
  Json root;
};

/// One case: an element of "cases", or the whole file when it has none.
struct Case {
  std::string pointer;  ///< "/cases/3", or "" for the whole file
  const Json* body;
  const Json& params() const { return body->at("params"); }
  const Json& inputs() const;  ///< some files wrap them twice
  const Json& expected() const { return body->at("expected"); }
  std::string place(const std::string& key) const { return join_pointer(pointer + "/expected", key); }
};
std::vector<Case> cases(const Golden& golden);

/// What lies in a folder of goldens.
struct Found {
  std::vector<Golden> goldens;
  std::vector<std::filesystem::path> configs;  ///< of models, Hugging Face's config.json: no goldens, but read by some
  std::vector<std::string> strays;             ///< JSON files that are neither, with the reason
};
std::filesystem::path own_folder();     ///< tests/golden of this repository
std::filesystem::path golden_folder();  ///< POSENC_GOLDENS, or own_folder()
Found find_goldens(const std::filesystem::path& folder);
const Found& goldens();      ///< those of golden_folder() at the first call
const Found& own_goldens();  ///< those of own_folder()

/// |got − want| ≤ abs + (rel + rounding)·|want|
struct Tolerance {
  double abs = 0, rel = 0;
};
/// The files hold nine significant digits.
inline constexpr double kRounding = 1e-8;
/// A number that went through one rounding to float32 (half an ulp, relative).
inline constexpr double kFloat32Rounding = 1.0 / (1 << 24);

/// What a check found in one file.
class Findings {
 public:
  /// Compares every number, shapes included. `place` is the JSON pointer of what was expected.
  void near(const std::string& place, const Tensor& got, const Tensor& want, const Tolerance& tolerance);
  void near(const std::string& place, double got, double want, const Tolerance& tolerance);
  /// As near, with an absolute tolerance for each number (broadcast over `want`).
  void near_each(const std::string& place, const Tensor& got, const Tensor& want, const Tensor& absolute);
  /// Integers, lists of them, null.
  void equal(const std::string& place, const Json& got, const Json& want);
  /// A usual wrong answer that the right one must not be.
  void differs(const std::string& place, double got, double wrong, const Tolerance& tolerance);
  void fail(const std::string& place, const std::string& reason);
  /// What stands at `pointer` is compared with nothing, and why.
  void leave_out(const std::string& pointer, const std::string& reason) { left_out_[pointer] = reason; }

  const std::vector<std::string>& failures() const { return failures_; }
  const std::map<std::string, std::string>& left_out() const { return left_out_; }
  bool leaves_out(const std::string& pointer) const;  ///< it, or what it is part of
  std::int64_t compared() const { return compared_; }
  double worst() const { return worst_; }  ///< largest deviation as a share of what was allowed
  const std::string& worst_place() const { return worst_place_; }

 private:
  std::vector<std::string> failures_;
  std::map<std::string, std::string> left_out_;
  std::int64_t compared_ = 0;
  double worst_ = 0;
  std::string worst_place_;
};

/// Nested lists of numbers as a float64 tensor of their shape; ragged ones are an error.
Tensor numbers(const Json& nested);
/// A list of numbers.
std::vector<double> number_list(const Json& list);

struct Kind {
  const char* name;
  Findings (*check)(const Golden&);
};
const std::vector<Kind>& built_kinds();
const Kind* find_kind(const std::string& name);
/// The check of the golden's kind; an exception on the way (a missing key, a refused parameter) is a failure.
Findings examine(const Kind& kind, const Golden& golden);

Findings check_alibi_slopes(const Golden&);
Findings check_bias_alibi(const Golden&);
Findings check_bias_t5(const Golden&);
Findings check_t5_buckets(const Golden&);
Findings check_sinusoidal(const Golden&);
Findings check_rope_apply(const Golden&);
Findings check_rope_inv_freq(const Golden&);
Findings check_rope_inv_freq_yarn_repo(const Golden&);
Findings check_bias_kerple(const Golden&);
Findings check_bias_sandwich(const Golden&);
Findings check_bias_fire(const Golden&);
Findings check_dynamic_position_bias(const Golden&);
Findings check_attn_shaw(const Golden&);
Findings check_attn_transformer_xl(const Golden&);
Findings check_attn_cope(const Golden&);
Findings check_attn_dape(const Golden&);
Findings check_attn_fox(const Golden&);
Findings check_xpos(const Golden&);
Findings check_perplexity_protocol(const Golden&);
Findings check_train_trace(const Golden&);
Findings check_model(const Golden&);
Findings check_perplexity_models(const Golden&);

}  // namespace posenc::golden
