#pragma once
// What decoding keeps of the tokens a model has seen, so that the next ones cost one row of attention each, or one step of a
// recurrent or convolutional model. Keys are kept as projected, before they are turned: an extension may turn them anew at every
// length.
//
//   KvCache cache;   pass.cache = &cache;
//   h = model->hidden(prompt, pass);        // [B, n, C]
//   h = model->hidden(next_token, pass);    // [B, 1, C], as if prompt and token had been given at once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace posenc {

struct KvCache {
  using Tensor = torch::Tensor;

  struct Layer {
    Tensor k, v;   ///< [B, Hkv, n, D]
    Tensor x;      ///< [B, n, C] the attention's normalised input; of width 0 where the scheme does not look at it
    Tensor state;  ///< of a layer that does not attend, in a form of its own
  };
  std::vector<Layer> layers;
  Tensor tokens;  ///< [B, n] int64, all so far

  std::int64_t length() const { return tokens.defined() ? tokens.size(1) : 0; }
  void append(const Tensor& more) { tokens = tokens.defined() ? torch::cat({tokens, more}, 1) : more; }
};

}  // namespace posenc
