#pragma once
// manifest.json: everything about where and how a run was made that its config does not say.

#include "config/experiment.h"
#include "core/json.h"
#include "data/dataset.h"

namespace posenc {

/// Versions, BLAS, SIMD, attention path, threads, CPU, digests of the text.
Json run_manifest(const Experiment& experiment, const Dataset& dataset, int threads);

}  // namespace posenc
