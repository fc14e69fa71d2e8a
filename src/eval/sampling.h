#pragma once
// The choice of the next token from the logits of a model. No torch.

#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace posenc {

struct Sampling {
  double temperature = 0;  ///< logits are divided by it; 0: the likeliest token, nothing is drawn
  std::int64_t top_k = 0;  ///< only the k likeliest tokens; 0: all
  double top_p = 1;        ///< only the likeliest tokens that together have at least this probability (Holtzman et al. 2019)
};

/// A token [0, logits.size()). top_k counts first, top_p on what is left. Among equal logits the lower id is the likelier.
/// DataError when a logit is not a number.
std::int32_t sample_token(const std::vector<float>& logits, const Sampling& sampling, Rng& rng);

}  // namespace posenc
