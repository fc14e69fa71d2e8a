#pragma once
// What a positional scheme does, in numbers: of the scheme alone (bias and rotation by distance, what a shift or another order of
// the context changes), and of a trained model (how much of its loss depends on the order of the context, and on single tokens at a
// distance). Everything follows from its seed.

#include <cstdint>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "data/dataset.h"
#include "eval/evaluate.h"

namespace posenc {

/// A scheme at some distances.
struct DistanceCurves {
  std::vector<std::int64_t> distances;
  std::vector<std::vector<double>> bias;  ///< [heads][distances]; empty: the scheme has no such bias
  std::vector<double> rotation;           ///< mean of cos over the turned pairs, times the magnitudes; empty: nothing is turned
};
DistanceCurves distance_curves(const Experiment& experiment, const std::vector<std::int64_t>& distances);

/// The largest change of the last token's output when the tokens before it are put into another order, relative to the largest
/// output, in untrained models with weights large enough to matter.
struct OrderOfContext {
  double unmasked = 0;          ///< attention over all tokens without a mask or positions: rounding
  double causal_one_layer = 0;  ///< one causal layer without positions: the last token sees a set as well
  double causal = 0;            ///< two causal layers without positions: the first layer's outputs know how much stood before
  double scheme_one_layer = 0, scheme = 0;  ///< the same with the scheme
  double shift = 0;                         ///< two layers of the scheme, every position moved by 7: 0 for a relative scheme
};
OrderOfContext order_of_context(const Experiment& experiment);

/// A change of the context of a trained model and what it does to the loss of the targets behind it.
struct Disturbance {
  std::string what;
  std::int64_t targets = 0;
  double nll = 0, change = 0;           ///< mean NLL under it, and how much that is above the undisturbed one
  std::optional<double> change_stderr;  ///< paired by windows
};

/// Windows of the training length from the evaluation's split, their last targets scored: undisturbed, with the context shuffled,
/// with its last two tokens exchanged; then the last target alone with one context token replaced, at rising distances.
std::vector<Disturbance> disturbances(const LanguageModel& model, const Dataset& dataset, const Experiment& experiment,
                                      const EvalSettings& settings);

}  // namespace posenc
