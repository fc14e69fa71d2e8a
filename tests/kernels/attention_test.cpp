// The fused kernel against the reference beside it: outputs, and gradients by differences of the reference, which sums in double.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace posenc::kernels {
namespace {

using Index = std::int64_t;
using Numbers = std::vector<float>;

/// Which terms a case has.
struct Case {
  std::string name;
  AttentionShape shape;
  bool rotation = false, interleaved = false, temperature = false, bias = false, decay = false, decay_of_query = true,
       sink = false, relative = false, piecewise = false;
  Index shared = 0;  ///< 1: one temperature, bias and table of vectors for all heads
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

/// The arrays of a case, filled at random, and what the kernel made of them.
struct Problem {
  explicit Problem(const Case& c) : of(c), s(c.shape) {
    const Index q_rows = s.batch * s.heads * s.queries, k_rows = s.batch * s.kv_heads * s.keys;
    const Index tables = c.shared ? 1 : s.heads;
    fill(q, q_rows * s.width);
    fill(k, k_rows * s.width);
    fill(v, k_rows * s.value_width);
    fill(dy, q_rows * s.value_width);
    if (c.bias) fill(bias, tables * s.keys);
    if (c.temperature) fill(temperature, tables * s.queries);
    if (c.sink) fill(sink, s.heads);
    if (c.relative) fill(relative_keys, tables * s.keys * s.width);
    if (c.relative) fill(relative_values, tables * s.keys * s.value_width);
    if (c.rotation) {
      const Index pairs = s.width / 2;
      fill(angles, s.keys * pairs);
      for (const float a : angles) cos.push_back(std::cos(a)), sin.push_back(std::sin(a));
    }
    if (c.piecewise) {  // continuous, of shares u between 0 and about 1
      fill(slopes, s.heads * (kKinks + 1));
      intercepts.resize(slopes.size());
      for (Index p = 0; p < kKinks; ++p) kinks.push_back((static_cast<float>(p) - 0.41421f) / kKinks);  // no pair's u
      for (std::size_t i = 0; i < slopes.size(); ++i) {
        const std::size_t p = i % (kKinks + 1);
        intercepts[i] = p == 0 ? 0.5f : intercepts[i - 1] + (slopes[i - 1] - slopes[i]) * kinks[p - 1];
      }
      for (Index d = 0; d < s.keys; ++d) rises.push_back(0.5f * static_cast<float>(d));
      for (Index i = 0; i < s.queries; ++i) factors.push_back(2 / static_cast<float>(10 + s.first_query + i));
    }
    if (c.decay) {  // running sums of gates, far from zero; or plain biases of keys
      Numbers steps;
      fill(steps, s.batch * s.heads * s.keys);
      double sum = -3000;
      for (const float step : steps) decay.push_back(c.decay_of_query ? sum -= std::abs(step) : static_cast<double>(step));
    }
  }

  AttentionInputs inputs() const {
    AttentionInputs in;
    in.q = rows(q.data(), s.heads, s.queries, s.width);
    in.k = rows(k.data(), s.kv_heads, s.keys, s.width);
    in.v = rows(v.data(), s.kv_heads, s.keys, s.value_width);
    in.scale = 1 / std::sqrt(static_cast<float>(s.width));
    if (of.rotation) {
      const Index pairs = s.width / 2;
      in.k_rotation = {cos.data(), sin.data(), pairs, of.interleaved};
      in.q_rotation = {cos.data() + s.first_query * pairs, sin.data() + s.first_query * pairs, pairs, of.interleaved};
    }
    const Index tables = of.shared ? 1 : s.heads;
    if (of.temperature) in.temperature = temperature.data(), in.temperature_heads = tables;
    if (of.bias) in.distance_bias = bias.data(), in.bias_heads = tables;
    if (of.decay) in.decay = decay.data(), in.decay_of_query = of.decay_of_query;
    if (of.sink) in.sink = sink.data();
    if (of.piecewise) in.piecewise = {kinks.data(), kKinks, slopes.data(), intercepts.data(), rises.data(), factors.data()};
    if (of.relative)
      in.relative_keys = relative_keys.data(), in.relative_values = relative_values.data(), in.relative_heads = tables;
    return in;
  }

  template <class T>
  static Rows<T> rows(T* data, Index heads, Index n, Index width) {
    return {data, heads * n * width, n * width, width};
  }

  std::vector<double> reference() const {
    std::vector<double> result(dy.size()), sums(static_cast<std::size_t>(s.batch * s.heads * s.queries));
    attention_reference(s, inputs(), rows(result.data(), s.heads, s.queries, s.value_width), sums.data());
    return result;
  }

  void forward(int threads = 1) {
    y.assign(dy.size(), std::numeric_limits<float>::quiet_NaN());
    log_sum.assign(static_cast<std::size_t>(s.batch * s.heads * s.queries), 0);
    attention_forward(s, inputs(), rows(y.data(), s.heads, s.queries, s.value_width), log_sum.data(), threads);
  }

  /// What the loss Σ y·dy changes by along a change of every input by `step` times a random direction, and what the gradients
  /// say it does.
  struct Along {
    std::string input;
    double change, predicted;
  };
  std::vector<Along> differences(int threads = 1) {
    forward();
    const Index per_head = s.batch * s.heads;
    Numbers dq(q.size()), dk(k.size()), dv(v.size()), dbias(static_cast<std::size_t>(per_head * s.keys)),
        dtemperature(static_cast<std::size_t>(per_head * s.queries)), dsink(static_cast<std::size_t>(per_head)),
        dkeys(static_cast<std::size_t>(per_head * s.keys * s.width)),
        dvalues(static_cast<std::size_t>(per_head * s.keys * s.value_width)),
        dslopes(static_cast<std::size_t>(per_head * (kKinks + 1))), dintercepts(dslopes.size()),
        drises(static_cast<std::size_t>(per_head * s.keys)), dfactors(dtemperature.size());
    std::vector<double> ddecay(static_cast<std::size_t>(per_head * s.keys));
    AttentionGradients out;
    out.q = rows(dq.data(), s.heads, s.queries, s.width);
    out.k = rows(dk.data(), s.kv_heads, s.keys, s.width);
    out.v = rows(dv.data(), s.kv_heads, s.keys, s.value_width);
    if (of.bias) out.distance_bias = dbias.data();
    if (of.temperature) out.temperature = dtemperature.data();
    if (of.sink) out.sink = dsink.data();
    if (of.decay) out.decay = ddecay.data();
    if (of.relative) out.relative_keys = dkeys.data(), out.relative_values = dvalues.data();
    if (of.piecewise) out.piecewise = {dslopes.data(), dintercepts.data(), drises.data(), dfactors.data()};
    const auto const_rows = [&](const Numbers& n) { return rows(n.data(), s.heads, s.queries, s.value_width); };
    attention_backward(s, inputs(), const_rows(y), log_sum.data(), const_rows(dy), out, threads);
    std::vector<Along> found;
    along("q", q, dq, found);
    along("k", k, dk, found);
    along("v", v, dv, found);
    along("bias", bias, dbias, found);
    along("temperature", temperature, dtemperature, found);
    along("sink", sink, dsink, found);
    along("decay", decay, ddecay, found);
    along("relative keys", relative_keys, dkeys, found);
    along("relative values", relative_values, dvalues, found);
    along("slopes", slopes, dslopes, found);
    along("intercepts", intercepts, dintercepts, found);
    // So short that next to no pair passes a kink on the way; shares are up to 75 times the factors of queries.
    along("by distance", rises, drises, found, 1.0f / (1 << 14));
    along("by query", factors, dfactors, found, 1.0f / (1 << 26));
    return found;
  }

  /// Gradients may be per batch entry and head where the input is not: entry i of the input goes with i, i + n, i + 2n, …
  template <class T>
  void along(const std::string& name, std::vector<T>& x, const std::vector<T>& gradient, std::vector<Along>& out,
             float step = 1.0f / 256) {
    if (x.empty()) return;
    Numbers direction;
    fill(direction, static_cast<Index>(x.size()));
    const std::vector<T> kept = x;
    std::vector<T> ahead = x, behind = x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      ahead[i] += step * direction[i];
      behind[i] -= step * direction[i];
    }
    const auto loss = [&](const std::vector<T>& at) {
      x = at;
      const std::vector<double> values = reference();
      double sum = 0;
      for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * static_cast<double>(dy[i]);
      return sum;
    };
    const double change = loss(ahead) - loss(behind);
    x = kept;
    double predicted = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i)
      predicted += static_cast<double>(gradient[i]) * (static_cast<double>(ahead[i % x.size()]) - behind[i % x.size()]);
    const double per_step = 1.0 / 256 / static_cast<double>(step);  // as if all steps were of one size
    out.push_back({name, change * per_step, predicted * per_step});
  }

  void fill(Numbers& x, Index n) {
    std::normal_distribution<float> normal;
    x.resize(static_cast<std::size_t>(n));
    for (float& e : x) e = normal(random);
  }

  static constexpr Index kKinks = 6;
  Case of;
  AttentionShape s;
  std::mt19937 random{1};
  Numbers q, k, v, dy, bias, temperature, sink, relative_keys, relative_values, angles, cos, sin, y, log_sum, kinks, slopes,
      intercepts, rises, factors;
  std::vector<double> decay;
};

AttentionShape sized(Index length, Index width = 8, Index heads = 2, Index kv_heads = 2, Index batch = 1) {
  AttentionShape s;
  s.batch = batch;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.queries = s.keys = length;
  s.width = s.value_width = width;
  return s;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Index n : {1, 7, 64, 65, 300}) all.push_back({"length_" + std::to_string(n), sized(n)});
  for (const Index d : {1, 5, 16, 33, 64}) all.push_back({"width_" + std::to_string(d), sized(37, d)});
  const auto add = [&](const std::string& name, const std::function<void(Case&)>& change, Index length = 150) {
    Case c{name, sized(length)};
    change(c);
    all.push_back(c);
  };
  add("narrow_values", [](Case& c) { c.shape.value_width = 3; });
  add("grouped", [](Case& c) { c.shape = sized(70, 8, 6, 2, 2); });
  add("rotation", [](Case& c) { c.rotation = true; });
  add("rotation_interleaved", [](Case& c) { c.rotation = c.interleaved = true; });
  add("temperature", [](Case& c) { c.temperature = true; });
  add("shared_temperature", [](Case& c) { c.temperature = true, c.shared = 1, c.rotation = true; });
  add("bias", [](Case& c) { c.bias = true; });
  add("shared_bias", [](Case& c) { c.bias = true, c.shared = 1; });
  add("decay", [](Case& c) { c.decay = true; });
  add("decay_of_keys", [](Case& c) { c.decay = true, c.decay_of_query = false; });
  add("decay_and_sink", [](Case& c) { c.decay = c.sink = true; });
  add("piecewise", [](Case& c) { c.piecewise = true; });
  add("piecewise_decay", [](Case& c) { c.piecewise = c.decay = true, c.shape = sized(140, 8, 4, 2, 2); });
  add(
      "piecewise_window",
      [](Case& c) {
        c.piecewise = true, c.shape.visible = {40, 0, 3};
      },
      300);
  add("piecewise_offset", [](Case& c) { c.shape.queries = 40, c.shape.first_query = 110, c.piecewise = true; });
  add("sink", [](Case& c) { c.sink = true; });
  add("relative", [](Case& c) { c.relative = true; });
  add("shared_relative", [](Case& c) { c.relative = true, c.shared = 1, c.shape.value_width = 5; });
  add(
      "window", [](Case& c) { c.shape.visible.window = 5; }, 300);
  add(
      "window_bias", [](Case& c) { c.shape.visible.window = 130, c.bias = true; }, 300);
  add(
      "chunk", [](Case& c) { c.shape.visible.chunk = 48; }, 300);
  add(
      "kept",
      [](Case& c) {
        c.shape.visible = {20, 0, 3};
      },
      300);
  add(
      "kept_beyond_a_tile",
      [](Case& c) {
        c.shape.visible = {20, 64, 140}, c.sink = true;
      },
      300);
  add("offset", [](Case& c) { c.shape.queries = 40, c.shape.first_query = 110; });
  add("last_query", [](Case& c) { c.shape.queries = 1, c.shape.first_query = 149, c.bias = c.rotation = true; });
  add("first_queries", [](Case& c) { c.shape.queries = 40; });
  add("everything", [](Case& c) {
    c.shape = sized(170, 12, 4, 2, 2);
    c.shape.queries = 60;
    c.shape.first_query = 105;
    c.shape.visible = {40, 0, 2};
    c.rotation = c.temperature = c.bias = c.decay = c.sink = c.relative = c.piecewise = true;
  });
  return all;
}

class FusedAttention : public testing::TestWithParam<Case> {
 protected:
  ~FusedAttention() override { use_simd_target(""); }
};

INSTANTIATE_TEST_SUITE_P(Every, FusedAttention, testing::ValuesIn(cases()), [](const auto& each) { return each.param.name; });

// Logits are of order 1 to 10, so that a few hundred terms err by some units in the last place (6e-8) of the largest value.
TEST_P(FusedAttention, GivesTheReferenceOnEveryInstructionSet) {
  for (const std::string& target : simd_targets()) {
    use_simd_target(target);
    Problem problem(GetParam());
    problem.forward();
    const std::vector<double> expected = problem.reference();
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(problem.y[i], expected[i], 1e-5) << target << ", " << i;
  }
}

TEST_P(FusedAttention, GradientsAreTheDifferencesOfTheReference) {
  for (const std::string& target : simd_targets()) {
    use_simd_target(target);
    Problem problem(GetParam());
    double largest = 0;
    const auto found = problem.differences();
    for (const auto& each : found) largest = std::max(largest, std::abs(each.change));
    ASSERT_GT(largest, 0);
    // Steps of 1/256 leave a third-order error near 1e-5 of the largest change.
    for (const auto& each : found) EXPECT_NEAR(each.predicted, each.change, 1e-4 * largest) << target << ", " << each.input;
  }
}

TEST_P(FusedAttention, ThreadsChangeNoBit) {
  Problem one(GetParam()), three(GetParam());
  one.forward(1);
  three.forward(3);
  EXPECT_EQ(one.y, three.y);
  EXPECT_EQ(one.log_sum, three.log_sum);
  const auto a = one.differences(1), b = three.differences(3);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].predicted, b[i].predicted) << a[i].input;
}

TEST(FusedAttentionLimits, LargeLogitsDoNotOverflow) {
  Case c{"large", sized(100)};
  c.bias = true;
  Problem problem(c);
  for (float& e : problem.q) e *= 1e4f;
  for (float& e : problem.bias) e *= 1e5f;
  problem.forward();
  const auto expected = problem.reference();
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(std::isfinite(problem.y[i])) << i;
}

TEST(FusedAttentionLimits, ABiasOfMinusInfinityHidesAKey) {
  for (const std::string& target : simd_targets()) {
    use_simd_target(target);
    Case c{"hidden", sized(300)};
    c.bias = true;
    Problem problem(c);
    for (std::size_t i = 0; i < problem.bias.size(); ++i) {
      if (i % 300 >= 5) problem.bias[i] = -std::numeric_limits<float>::infinity();
    }
    problem.forward();
    const auto expected = problem.reference();
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(problem.y[i], expected[i], 1e-5) << target << ", " << i;
  }
  use_simd_target("");
}

TEST(FusedAttentionLimits, NotANumberReachesWhatSeesItAndNothingElse) {
  for (const std::string& target : simd_targets()) {
    use_simd_target(target);
    Problem problem({"nan", sized(40, 8, 1, 1)});
    problem.k[20 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
    problem.forward();
    for (std::size_t i = 0; i < problem.y.size(); ++i) EXPECT_EQ(std::isnan(problem.y[i]), i >= 20 * 8) << target << ", " << i;
  }
  use_simd_target("");
}

TEST(FusedAttentionLimits, NoSinkIsASinkOfMinusInfinity) {
  Case c{"sink", sized(100)};
  Problem without(c);
  c.sink = true;
  Problem with(c);
  with.q = without.q, with.k = without.k, with.v = without.v;
  with.sink.assign(2, -std::numeric_limits<float>::infinity());
  without.forward();
  with.forward();
  EXPECT_EQ(with.y, without.y);
}

TEST(SimdTarget, NamesAreThoseThisMachineRuns) {
  const auto all = simd_targets();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(simd_target(), all.front());
  use_simd_target(all.back());
  EXPECT_EQ(simd_target(), all.back());
  use_simd_target("");
  EXPECT_EQ(simd_target(), all.front());
  EXPECT_THROW(use_simd_target("abacus"), std::logic_error);
}

}  // namespace
}  // namespace posenc::kernels
