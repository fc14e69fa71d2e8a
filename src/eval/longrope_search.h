#pragma once
// The search for LongRoPE's divisors on a trained model: evolution from those that PI, NTK and YaRN come to. Ding et al. 2024
// (arXiv:2402.13753), section 3.2. Divisors never fall from a pair to the next lower frequency, lie in [1, 1.25·s] and are whole
// hundredths, and so many first positions as stand in the paper's list keep the trained frequencies.
//
//   LongRopeSearch search(model, split, settings);
//   while (!search.finished()) { search.step(); write(search.state()); }     // restore(state) goes on from there
//   longrope_extension(search.best(), scale);                                // as a config names it

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "eval/evaluate.h"
#include "model/language_model.h"

namespace posenc {

struct LongRopeSettings {
  std::int64_t length = 0;        ///< of the windows that are scored
  std::int64_t train_length = 0;  ///< s = length / train_length
  std::int64_t pairs = 0;         ///< of dims that the model turns
  double base = 10000;            ///< of its frequencies
  std::int64_t population = 16, iterations = 10;
  double mutation = 0.3;  ///< chance of each divisor, and of the unscaled positions, to be drawn anew
  std::int64_t windows = 8, targets = 64;
  std::uint64_t seed = 1;
};

/// What is searched for.
struct LongRopeChoice {
  std::vector<double> factors;  ///< [pairs]
  std::int64_t unscaled = 0;    ///< first positions that keep the trained frequencies
  bool operator==(const LongRopeChoice&) const = default;
};

class LongRopeSearch {
 public:
  /// Scores the last `targets` targets of windows of `split`, which should not be the one that results are reported on. `model`
  /// and `split` must outlive the search.
  LongRopeSearch(const LanguageModel& model, const Split& split, LongRopeSettings settings, EvalSettings evaluation);

  bool finished() const { return iteration_ >= settings_.iterations; }
  /// One generation: the first scores the seeds and their mutations, each later one the children of the better half.
  void step();

  std::int64_t iteration() const { return iteration_; }
  const LongRopeChoice& best() const { return population_.front().choice; }
  double best_nll() const { return population_.front().nll; }
  /// NLL of what the search started from: "pi", "ntk", "yarn".
  const Json& seeds() const { return seeds_; }

  /// Everything step() depends on besides model and text.
  Json state() const;
  /// ConfigError unless the state is of the same settings, DataError when it is none.
  void restore(const Json& state, const std::string& source);

 private:
  struct Candidate {
    LongRopeChoice choice;
    double nll = 0;
  };

  double score(const LongRopeChoice& choice) const;
  LongRopeChoice within_bounds(LongRopeChoice choice) const;
  LongRopeChoice mutated(LongRopeChoice choice, Rng& rng) const;
  void add_seeds(Rng& rng);
  void add_children(Rng& rng);
  double add(const LongRopeChoice& choice);  ///< to the population, once; its NLL
  Json settings_json() const;
  double scale() const { return static_cast<double>(settings_.length) / static_cast<double>(settings_.train_length); }
  double largest_factor() const { return std::max(1.0, 1.25 * scale()); }

  const LanguageModel& model_;
  const Split& split_;
  LongRopeSettings settings_;
  EvalSettings evaluation_;
  std::vector<EvalWindow> windows_;
  std::vector<Candidate> population_;  ///< best first
  Json seeds_ = Json::object();
  std::int64_t iteration_ = 0;
};

/// The extension that a search comes to, as a config names it.
Json longrope_extension(const LongRopeChoice& choice, double scale);

}  // namespace posenc
