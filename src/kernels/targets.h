#pragma once
// The instruction sets that kernels are compiled for: only those that differ in what matters here, the portable baseline, AVX2 with
// FMA, and AVX-512 ("AVX3"). A file of kernels includes this before it includes itself, through hwy/foreach_target.h, once for each.

#include <hwy/detect_compiler_arch.h>

#if HWY_ARCH_X86
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | 0xFFLL)  // the lowest eight bits are what came after AVX3
#else
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)  // no arrays of vectors of unknown size
#endif
