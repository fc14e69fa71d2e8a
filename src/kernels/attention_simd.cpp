#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/attention.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_simd.cpp"
#include <hwy/foreach_target.h>

#include "kernels/attention_backward-inl.h"
#include "kernels/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::kernels::HWY_NAMESPACE {

void forward(const AttentionShape& shape, const AttentionInputs& in, Rows<float> y, float* log_sum, int threads) {
  const Index groups = shape.batch * shape.kv_heads, per_group = shape.heads / shape.kv_heads;
  const Index tiles = (shape.queries + kQueryTile - 1) / kQueryTile;
  // As many groups at a time as there are threads; then their heads, each in `chunks` that take every chunks-th tile, because later
  // tiles see more keys.
  const Index wave = std::max(1, threads), chunks = std::min(wave, tiles);
  std::vector<Group> packed(static_cast<std::size_t>(std::min(wave, groups)));
  for (Index begin = 0; begin < groups; begin += wave) {
    const Index count = std::min(wave, groups - begin);
    parallel_for(count, threads, [&](Index i) {
      Group& group = packed[static_cast<std::size_t>(i)];
      group.batch = (begin + i) / shape.kv_heads;
      group.kv_head = (begin + i) % shape.kv_heads;
      group.pack(shape, in, /*backward=*/false);
    });
    parallel_for(count * per_group * chunks, threads, [&](Index piece) {
      const Group& group = packed[static_cast<std::size_t>(piece / (per_group * chunks))];
      HeadWork work(shape, in);
      work.begin(group.batch, group.kv_head * per_group + piece / chunks % per_group);
      for (Index tile = piece % chunks; tile < tiles; tile += chunks) {
        const Index first = tile * kQueryTile;
        work.forward(group, first, std::min(kQueryTile, shape.queries - first), y, log_sum);
      }
    });
  }
}

void backward(const AttentionShape& shape, const AttentionInputs& in, Rows<const float> y, const float* log_sum,
              Rows<const float> dy, const AttentionGradients& out, int threads) {
  parallel_for(shape.batch * shape.kv_heads, threads, [&](Index i) {
    Group group;
    group.batch = i / shape.kv_heads;
    group.kv_head = i % shape.kv_heads;
    group.pack(shape, in, /*backward=*/true);
    GroupGradients(shape, in, out).run(group, y, log_sum, dy);
  });
}

}  // namespace posenc::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::kernels {

HWY_EXPORT(forward);
HWY_EXPORT(backward);

void attention_forward(const AttentionShape& shape, const AttentionInputs& in, Rows<float> y, float* log_sum, int threads) {
  HWY_DYNAMIC_DISPATCH(forward)(shape, in, y, log_sum, threads);
}

void attention_backward(const AttentionShape& shape, const AttentionInputs& in, Rows<const float> y, const float* log_sum,
                        Rows<const float> dy, const AttentionGradients& out, int threads) {
  HWY_DYNAMIC_DISPATCH(backward)(shape, in, y, log_sum, dy, out, threads);
}

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const auto target : hwy::SupportedAndGeneratedTargets()) names.push_back(hwy::TargetName(target));
  return names;
}

std::string simd_target() { return simd_targets().front(); }

void use_simd_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  if (!name.empty()) {
    const auto targets = hwy::SupportedAndGeneratedTargets();
    const auto found = std::find_if(targets.begin(), targets.end(), [&](auto t) { return hwy::TargetName(t) == name; });
    POSENC_CHECK(found != targets.end(), "no kernels for " + name);
    hwy::SetSupportedTargetsForTest(*found);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace posenc::kernels
#endif
