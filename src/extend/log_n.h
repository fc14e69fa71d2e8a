#pragma once
// Log-n scaling at inference, for the extension, for those that come with it and for the temperature axis.

#ifdef POSENC_TENSORS

#include "schemes/scheme.h"

namespace posenc {

/// max(1, ln n_i / ln L) with n_i the keys that query i sees and L the training length, at least 2: [Q] float64.
Tensor log_n_temperature(const Frame& frame, std::int64_t train_length);

}  // namespace posenc

#endif
