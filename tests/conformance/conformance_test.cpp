// Every claim that is made of all schemes, tested on each of them. A scheme in list.def is in these tests; there is nothing to
// add here for a new one but its interesting parameters (scheme_variations).
#include "conformance/conformance.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>
#include <thread>

#include "eval/evaluate.h"
#include "train/checkpoint.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

double largest(const Tensor& x) { return x.numel() == 0 ? 0 : x.abs().max().item<double>(); }
double difference(const Tensor& a, const Tensor& b) { return largest(a - b); }

bool overrides(const SchemeInfo& info, const std::string& hook) {
  std::istringstream hooks(info.traits.hooks);
  for (std::string name; std::getline(hooks >> std::ws, name, ',');) {
    if (name == hook) return true;
  }
  return false;
}

const SchemeInfo& info_of(const ModelConfig& config) { return *find_registered(schemes(), config.position.name); }

/// Gradients of the summed loss of `tokens` [B, T+1] for every parameter; zeros where the loss does not reach.
std::vector<Tensor> gradients(const LanguageModel& model, const Tensor& tokens, const Pass& pass) {
  const std::int64_t length = tokens.size(1) - 1;
  const Tensor hidden = model.hidden(tokens.slice(1, 0, length), pass).flatten(0, 1);
  const Tensor loss = target_nll(model, hidden, tokens.slice(1, 1).flatten()).sum();
  const std::vector<Tensor> parameters = model.parameters();
  std::vector<Tensor> grads =
      torch::autograd::grad({loss}, parameters, {}, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < grads.size(); ++i) grads[i] = grads[i].defined() ? grads[i] : torch::zeros_like(parameters[i]);
  return grads;
}

double summed_loss(const LanguageModel& model, const Tensor& tokens, const Pass& pass = {}) {
  const torch::NoGradGuard no_grad;
  const Tensor hidden = model.hidden(tokens.slice(1, 0, tokens.size(1) - 1), pass).flatten(0, 1);
  return target_nll(model, hidden, tokens.slice(1, 1).flatten()).sum().item<double>();
}

Pass blocked(std::int64_t rows) {
  Pass pass;
  pass.attention = AttentionPath::kBlocked;
  pass.block_rows = rows;
  return pass;
}

Pass reference() {
  Pass pass;
  pass.attention = AttentionPath::kReference;
  return pass;
}

Pass fused() {
  Pass pass;
  pass.attention = AttentionPath::kFused;
  return pass;
}

class Conformance : public testing::TestWithParam<Variation> {
 protected:
  Conformance() : config_(tiny_config(GetParam().model)), info_(info_of(config_)) { at::set_num_threads(1); }

  std::shared_ptr<LanguageModel> model(torch::ScalarType dtype = torch::kFloat32, std::uint64_t seed = 1) const {
    return tiny_model(GetParam().model, dtype, kVocab, seed);
  }
  /// The scheme alone, its parameters filled.
  std::shared_ptr<Scheme> scheme() const {
    auto scheme = make_scheme(config_.position.name, config_.position.parameters, config_.shape(kTrainLength));
    scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(3));
    return scheme;
  }
  /// `length`, or as much of it as the scheme can represent.
  std::int64_t at_most(std::int64_t length) const {
    return static_cast<std::int64_t>(std::min(static_cast<double>(length), scheme()->last_position() + 1));
  }

  const ModelConfig config_;
  const SchemeInfo& info_;
};

INSTANTIATE_TEST_SUITE_P(EveryScheme, Conformance, testing::ValuesIn(variations()),
                         [](const auto& each) { return each.param.label; });

// Fault 57: with queries and keys times 1000, logits reach the millions, and no future token may show through.
TEST_P(Conformance, ATokenChangesNothingBeforeIt) {
  const std::int64_t length = 12, rotated_rows = (config_.heads + *config_.kv_heads) * *config_.head_dim;
  const Tensor tokens = random_tokens(1, length);
  for (const auto& [dtype, scale] :
       {std::pair(torch::kFloat32, 1.0), std::pair(torch::kFloat32, 1000.0), std::pair(torch::kFloat64, 1.0)}) {
    const auto tested = model(dtype);
    for (auto& item : tested->named_parameters()) {
      if (item.key().ends_with("qkv.weight")) item.value().data().slice(0, 0, rotated_rows).mul_(scale);
    }
    for (const Pass& pass : {reference(), blocked(5), fused()}) {
      const Tensor before = logits_of(*tested, tokens, pass);
      for (std::int64_t j = 0; j < length; ++j) {
        Tensor changed = tokens.clone();
        changed.select(1, j).add_(1).remainder_(kVocab);
        const Tensor after = logits_of(*tested, changed, pass);
        EXPECT_TRUE(torch::equal(before.slice(1, 0, j), after.slice(1, 0, j))) << "token " << j << ", scale " << scale;
        EXPECT_FALSE(torch::equal(before.select(1, j), after.select(1, j))) << "token " << j << ", scale " << scale;
      }
    }
  }
}

// Longer than a tile of keys. Where the scheme does not fit the kernel, the fused path is one of the others.
TEST_P(Conformance, TheFusedPathGivesTheReference) {
  const Tensor tokens = random_tokens(2, at_most(150) + 1);
  const auto tested = model(), exact = model(torch::kFloat64);
  const Tensor inputs = tokens.slice(1, 0, tokens.size(1) - 1);
  EXPECT_TRUE(torch::allclose(logits_of(*tested, inputs, fused()), logits_of(*tested, inputs, reference()), 1e-5, 1e-5));
  const auto grads = gradients(*tested, tokens, fused()), whole_grads = gradients(*exact, tokens, reference());
  const auto names = tested->named_parameters().keys();
  for (std::size_t i = 0; i < grads.size(); ++i)
    EXPECT_LE(difference(grads[i], whole_grads[i]), 1e-4 * largest(whole_grads[i])) << names[i];
}

TEST_P(Conformance, BlocksOfQueriesGiveTheWhole) {
  const Tensor tokens = random_tokens(2, at_most(40) + 1);
  // Sums of a few hundred terms in another order: some tens of units in the last place (6e-8, 1e-16) of logits up to 10.
  for (const auto& [dtype, forward, backward] :
       {std::tuple(torch::kFloat32, 1e-5, 1e-4), std::tuple(torch::kFloat64, 1e-12, 1e-11)}) {
    const auto tested = model(dtype);
    const Tensor inputs = tokens.slice(1, 0, tokens.size(1) - 1);
    const Tensor whole = logits_of(*tested, inputs, reference());
    const auto whole_grads = gradients(*tested, tokens, reference());
    const auto names = tested->named_parameters().keys();
    for (const std::int64_t rows : {1, 7, 39}) {
      EXPECT_TRUE(torch::allclose(logits_of(*tested, inputs, blocked(rows)), whole, forward, forward)) << rows << " rows";
      const auto grads = gradients(*tested, tokens, blocked(rows));
      for (std::size_t i = 0; i < grads.size(); ++i) {
        EXPECT_GT(largest(whole_grads[i]), 0) << names[i];
        EXPECT_LE(difference(grads[i], whole_grads[i]), backward * largest(whole_grads[i]))
            << names[i] << ", " << rows << " rows";
      }
    }
  }
}

// Fault 26: angles are formed in double, so a start at 300000 costs no more than 1e-4 in single precision.
TEST_P(Conformance, AShiftOfAllPositionsIsSeenUnlessTheSchemeIsRelative) {
  const Tensor tokens = random_tokens(2, 8);
  for (const auto& [dtype, near, far] : {std::tuple(torch::kFloat32, 1e-5, 1e-4), std::tuple(torch::kFloat64, 1e-12, 1e-9)}) {
    const auto tested = model(dtype);
    const Tensor unshifted = logits_of(*tested, tokens);
    for (const auto& [first, tolerance] : {std::pair(std::int64_t{7}, near), std::pair(std::int64_t{300000}, far)}) {
      if (first + 8 > at_most(first + 8)) continue;
      for (Pass pass : {reference(), blocked(3)}) {
        pass.first_position = first;
        const double change = difference(logits_of(*tested, tokens, pass), unshifted);
        // A sink token keeps its place at 0.
        if (info_.traits.relative && config_.position.axes.sinks.type != "token")
          EXPECT_LE(change, tolerance) << "from " << first;
        else EXPECT_GT(change, 0.01) << "from " << first;
      }
    }
  }
}

// Faults 27 and 40.
TEST_P(Conformance, SixteenTimesTheTrainingLengthIsRefusedOnlyByABoundedScheme) {
  const auto tested = model();
  EXPECT_EQ(tested->refusal(kTrainLength, nullptr), "");
  const bool bounded = std::isfinite(scheme()->last_position());
  EXPECT_EQ(info_.traits.bounded && config_.position.parameters.value("overflow", "error") == "error", bounded);
  if (!bounded) {
    EXPECT_EQ(tested->refusal(16 * kTrainLength, nullptr), "");
    EXPECT_TRUE(logits_of(*tested, random_tokens(1, 16 * kTrainLength)).isfinite().all().item<bool>());
    return;
  }
  const std::int64_t rows = at_most(1 << 20);
  EXPECT_EQ(tested->refusal(rows, nullptr), "");
  EXPECT_THAT(tested->refusal(rows + 1, nullptr),
              AllOf(HasSubstr(std::to_string(rows + 1)), HasSubstr("the table has " + std::to_string(rows))));
  EXPECT_ANY_THROW(logits_of(*tested, random_tokens(1, rows + 1))) << "clamped in silence";
}

// Single precision stays within a few hundred units in the last place of double, also far from the start: nothing on the way is
// rounded further.
TEST_P(Conformance, SinglePrecisionStaysCloseToDouble) {
  const Tensor tokens = random_tokens(1, at_most(16 * kTrainLength));
  EXPECT_LE(difference(logits_of(*model(torch::kFloat32), tokens), logits_of(*model(torch::kFloat64), tokens)), 1e-4);
}

// Central differences in double: rounding leaves about 1e-7 of a loss near 100 at h = 1e-6; a wider step would straddle kinks.
TEST_P(Conformance, GradientsAreTheDifferencesOfTheLoss) {
  const double h = 1e-6;
  const auto tested = model(torch::kFloat64);
  const Tensor tokens = random_tokens(2, 13);
  const auto grads = gradients(*tested, tokens, blocked(5));
  const auto parameters = tested->parameters();
  const auto names = tested->named_parameters().keys();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor grad = grads[i].contiguous();
    const std::int64_t last = parameters[i].numel() - 1;
    double* value = parameters[i].data_ptr<double>();
    for (const std::int64_t at : std::set<std::int64_t>{0, grad.abs().argmax().item<std::int64_t>(), last / 3, last}) {
      const double kept = value[at];
      value[at] = kept + h;
      const double above = summed_loss(*tested, tokens);
      value[at] = kept - h;
      const double below = summed_loss(*tested, tokens);
      value[at] = kept;
      const double expected = (above - below) / (2 * h), found = grad.data_ptr<double>()[at];
      EXPECT_NEAR(found, expected, 1e-6 * (1 + std::abs(expected))) << names[i] << "[" << at << "]";
    }
  }
}

// A model-wide cast rounds parameters and nothing else: frequencies, slopes and tables are those of a model that was never cast.
TEST_P(Conformance, ACastOfTheModelLeavesWhatIsDerivedUntouched) {
  const auto cast = model(torch::kFloat64), built = model(torch::kFloat64, 2);
  cast->to(torch::kBFloat16);
  cast->to(torch::kFloat64);
  load_model_tensors(model_tensors(*cast), "cast", *built);
  const Tensor tokens = random_tokens(1, kTrainLength);
  EXPECT_TRUE(torch::equal(logits_of(*cast, tokens), logits_of(*built, tokens)));
}

// bfloat16 has eight digits: 257 would be 256. What a hook returns is rounded once, its angles and distances are not.
TEST_P(Conformance, PositionsBeyond256AreNotAliasedInBfloat16) {
  const std::int64_t first = std::min<std::int64_t>(300, at_most(1 << 20) - 4), count = 4;
  const torch::NoGradGuard no_grad;
  const Positions at{torch::arange(first, first + count, torch::kFloat64)};
  const Frame frame{at, at, 0, kTrainLength};
  const auto exact = scheme(), rounded = scheme();
  exact->to(torch::kBFloat16);  // the same rounded parameters
  exact->to(torch::kFloat64);
  rounded->to(torch::kBFloat16);
  const auto close = [](const Tensor& got, const Tensor& want) {  // a few roundings of 2^-9 each
    return difference(got.to(torch::kFloat64), want) <= (1.0 / 64) * (1 + largest(want));
  };
  const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(5);
  const auto random = [&](at::IntArrayRef shape) {
    return torch::empty(shape, torch::kFloat64).normal_(0, 1, generator).to(torch::kBFloat16);
  };
  const std::int64_t width = exact->token_width() > 0 ? exact->token_width() : config_.d_model;
  const Tensor x = random({1, count, width});
  EXPECT_TRUE(close(rounded->embed(x, frame), exact->embed(x.to(torch::kFloat64), frame)));
  for (const Side side : {Side::kQuery, Side::kKey}) {
    const Tensor heads = random({1, side == Side::kQuery ? config_.heads : *config_.kv_heads, count, *config_.head_dim});
    EXPECT_TRUE(close(rounded->rotate(heads, side, frame), exact->rotate(heads.to(torch::kFloat64), side, frame)));
  }
  const Tensor bias = rounded->bias(frame);
  if (bias.defined()) {
    EXPECT_TRUE(close(bias, exact->bias(frame)));
  }
}

TEST_P(Conformance, SavedAndLoadedItIsTheSameModel) {
  const Tensor tokens = random_tokens(2, kTrainLength);
  const auto saved = model(), loaded = model(torch::kFloat32, 2);
  ASSERT_FALSE(torch::equal(logits_of(*saved, tokens), logits_of(*loaded, tokens)));
  load_model_tensors(parse_safetensors(format_safetensors(model_tensors(*saved)), "m.safetensors"), "m.safetensors", *loaded);
  EXPECT_TRUE(torch::equal(logits_of(*saved, tokens), logits_of(*loaded, tokens)));
}

// Fault 100: derived tables are no part of a file, and one found there is not taken for a parameter.
TEST_P(Conformance, AFileWithOtherTensorsIsRefusedNamingThem) {
  const auto tested = model();
  const TensorFile whole = model_tensors(*tested);
  const auto refusal = [&](const TensorFile& file) -> std::string {
    try {
      load_model_tensors(file, "m.safetensors", *tested);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(whole), "");
  TensorFile extra = whole;
  extra.tensors["position.inv_freq"] = to_raw(torch::zeros({4}));
  EXPECT_THAT(refusal(extra), AllOf(HasSubstr("m.safetensors"), HasSubstr("\"position.inv_freq\"")));
  for (const auto& [name, tensor] : whole.tensors) {
    TensorFile missing = whole, misshapen = whole;
    missing.tensors.erase(name);
    misshapen.tensors[name].shape.push_back(1);
    EXPECT_THAT(refusal(missing), AllOf(HasSubstr("m.safetensors"), HasSubstr("\"" + name + "\"")));
    EXPECT_THAT(refusal(misshapen), AllOf(HasSubstr("m.safetensors"), HasSubstr(name), HasSubstr("shape")));
  }
}

// Faults 29 and 31: whatever was computed before, by whichever extension and from whichever offset, leaves no trace.
TEST_P(Conformance, NoStateIsKeptBetweenCalls) {
  const std::int64_t longest = at_most(128);
  const Tensor shorter = random_tokens(1, longest / 4), longer = random_tokens(1, longest);
  const auto tested = model();
  const Tensor before = logits_of(*tested, shorter), of_longer = logits_of(*tested, longer);
  EXPECT_TRUE(torch::equal(logits_of(*tested, shorter), before));
  for (const Json& named : fitting_extensions(config_)) {
    const auto stretched = make_extension(named);
    Pass pass;
    pass.extension = stretched.get();
    if (!tested->refusal(128, stretched.get()).empty()) continue;
    const Tensor stretched_shorter = logits_of(*tested, shorter, pass);
    logits_of(*tested, random_tokens(1, 128), pass);
    EXPECT_TRUE(torch::equal(logits_of(*tested, shorter, pass), stretched_shorter)) << named;
    EXPECT_TRUE(torch::equal(logits_of(*tested, shorter), before)) << named;
  }
  const auto fresh = model();
  EXPECT_TRUE(torch::equal(logits_of(*fresh, longer), of_longer));
  EXPECT_TRUE(torch::equal(logits_of(*fresh, shorter), before));

  Pass offset;
  offset.first_position = 5;
  const Tensor few = random_tokens(1, 8);
  logits_of(*tested, few);
  const auto unused = model();
  EXPECT_TRUE(torch::equal(logits_of(*tested, few, offset), logits_of(*unused, few, offset)));
}

// Faults 45 and 49: with a head of zeros every token has probability 1/V, so a window, weight, pad or unit that is off shows as
// another number.
TEST_P(Conformance, AHeadOfZerosHasThePerplexityOfTheVocabularyEverywhere) {
  Json with_head = GetParam().model;
  with_head["tie_embeddings"] = false;
  const auto tested = tiny_model(with_head, torch::kFloat32, 256);
  tested->named_parameters()["head"].data().zero_();
  const Dataset dataset = text_dataset(std::string(300, 'x'));
  EvalSettings settings;
  Json config = {{"lengths", {16, 48, 100}},
                 {"protocols", {"fixed_target", "nonoverlapping", "sliding"}},
                 {"windows", 3},
                 {"stride", 16},
                 {"by_position", 2},
                 {"extensions", Json::array()}};
  for (const Json& named : fitting_extensions(config_)) config["extensions"].push_back(named);
  settings.config = from_json<EvalConfig>(config);
  settings.config.resolve(kTrainLength);
  const Evaluation evaluation = evaluate(*tested, dataset, settings);
  ASSERT_EQ(evaluation.cells.size(), 9 * (1 + config["extensions"].size()));
  for (const Cell& cell : evaluation.cells) {
    SCOPED_TRACE(cell.extension + " " + cell.protocol + " " + std::to_string(cell.length));
    const auto at = std::find_if(settings.config.extensions.begin(), settings.config.extensions.end(),
                                 [&](const ExtensionConfig& e) { return e.label() == cell.extension; });
    const auto used = at == settings.config.extensions.end() ? nullptr : make_extension(*at);
    if (cell.extension == "none") {
      EXPECT_EQ(cell.status == "refused", cell.length > at_most(cell.length));
    }
    if (!tested->refusal(cell.length, used.get()).empty()) {
      EXPECT_EQ(cell.status, "refused");
      continue;
    }
    ASSERT_EQ(cell.status, "ok");
    EXPECT_NEAR(*cell.nll, 5.5451774, 1e-7);
    EXPECT_NEAR(*cell.ppl, 256, 1e-4);  // the logarithm comes out in single precision
    EXPECT_NEAR(*cell.bits_per_byte, 8, 1e-6);
    EXPECT_EQ(cell.targets,
              cell.protocol == "fixed_target" ? 24 : 299);  // 3 windows of half the training length; all but the first token
  }
  ASSERT_FALSE(evaluation.by_position.empty());
  for (const PositionBucket& bucket : evaluation.by_position) EXPECT_NEAR(*bucket.nll, 5.5451774, 1e-7) << bucket.from;
}

TEST_P(Conformance, AnExtensionChangesNothingUpToTheTrainingLength) {
  const auto tested = model();
  for (const Json& named : fitting_extensions(config_)) {
    const auto* info = find_registered(extensions(), (named.is_string() ? named : named["method"]).get<std::string>());
    if (info->within_training) continue;
    const auto idle = make_extension(named);
    Pass pass;
    pass.extension = idle.get();
    for (const std::int64_t length : {1L, 9L, kTrainLength}) {
      const Tensor tokens = random_tokens(2, length);
      EXPECT_TRUE(torch::equal(logits_of(*tested, tokens, pass), logits_of(*tested, tokens))) << named << " at " << length;
    }
  }
}

/// The largest difference between the hidden states of `tokens` [B, T] given `parts` of them at a time through a cache and those of
/// one full forward. Where an extension shows the last tokens alone, only the last of what was given so far has a full forward
/// that ends with it.
double off_by_decoding(const LanguageModel& model, const Tensor& tokens, const std::vector<std::int64_t>& parts, Pass pass) {
  const torch::NoGradGuard no_grad;
  KvCache cache;
  pass.window = tokens.size(1);
  const Tensor whole = model.hidden(tokens, pass);
  const bool by_pieces = pass.extension && pass.extension->piece({kTrainLength, pass.window}) > 0;
  double off = 0;
  std::int64_t begin = 0;
  for (const std::int64_t count : parts) {
    Pass decoding = pass;
    decoding.cache = &cache;
    const std::int64_t end = begin + count;
    const Tensor hidden = model.hidden(tokens.slice(1, begin, end), decoding);
    const Tensor expected = by_pieces ? model.hidden(tokens.slice(1, 0, end), pass) : whole;
    const std::int64_t first = by_pieces ? end - 1 : begin;
    off = std::max(off, difference(hidden.slice(1, first - begin), expected.slice(1, first, end)) / (1 + largest(whole)));
    begin = end;
  }
  EXPECT_EQ(begin, tokens.size(1));
  return off;
}

// Twice the training length and more: a prompt, a second chunk of it, then token by token. Faults 32, 34 and 36.
TEST_P(Conformance, DecodingWithACacheGivesTheFullForwardUnderEveryExtension) {
  const auto tested = model();
  std::vector<Json> tried = fitting_extensions(config_);
  tried.insert(tried.begin(), Json());
  if (std::find(tried.begin(), tried.end(), Json("dynamic_ntk")) != tried.end())
    tried.push_back({{"method", "dynamic_ntk"}, {"mode", "per_step"}});
  for (const Json& named : tried) {
    const auto used = named.is_null() ? nullptr : make_extension(named);
    const bool fits = tested->refusal(34, used.get()).empty();
    const std::int64_t length = fits ? 34 : kTrainLength;
    Pass pass;
    pass.extension = used.get();
    const std::vector<std::int64_t> parts =
        fits ? std::vector<std::int64_t>{20, 7, 1, 1, 1, 1, 1, 1, 1} : std::vector<std::int64_t>{7, 4, 1, 1, 1, 1, 1};
    EXPECT_LE(off_by_decoding(*tested, random_tokens(2, length), parts, pass), 1e-5) << named;
  }
}

TEST_P(Conformance, TwoThreadsOnOneModelGiveTheSameAsOne) {
  const auto tested = model();
  const Tensor tokens = random_tokens(2, kTrainLength);
  const Tensor logits = logits_of(*tested, tokens);
  const auto grads = gradients(*tested, tokens, blocked(5));
  std::array<bool, 2> same = {true, true};
  const auto repeat = [&](std::size_t thread) {
    at::set_num_threads(1);
    for (int i = 0; i < 4; ++i) {
      same[thread] = same[thread] && torch::equal(logits_of(*tested, tokens), logits);
      const auto again = gradients(*tested, tokens, blocked(5));
      for (std::size_t p = 0; p < grads.size(); ++p) same[thread] = same[thread] && torch::equal(again[p], grads[p]);
    }
  };
  std::thread other(repeat, 1);
  repeat(0);
  other.join();
  EXPECT_TRUE(same[0]);
  EXPECT_TRUE(same[1]);
}

TEST_P(Conformance, EveryParameterIsCountedOnce) {
  const auto tested = model();
  std::set<void*> storages;
  std::int64_t count = 0;
  for (const auto& item : tested->named_parameters()) {
    EXPECT_TRUE(storages.insert(item.value().data_ptr()).second) << item.key();
    count += item.value().numel();
  }
  EXPECT_EQ(tested->parameter_count(), count);
  EXPECT_EQ(tested->buffers().size(), 0u);  // nothing derived that a cast or a file could catch
}

TEST_P(Conformance, TheHooksAreThoseTheSchemeNames) {
  const auto tested = scheme();
  const Tensor positions = torch::arange(1, 5, torch::kFloat64);
  const Frame frame{{positions}, {positions}, 0, kTrainLength};
  const Tensor x = torch::ones({1, 4, config_.d_model}), q = torch::ones({1, 2, 4, *config_.head_dim});
  EXPECT_EQ(overrides(info_, "embed"), !torch::equal(tested->embed(x, frame), x));
  EXPECT_EQ(overrides(info_, "rotate"), tested->rotates());
  EXPECT_EQ(tested->rotates(), !torch::equal(tested->rotate(q, Side::kQuery, frame), q));
  EXPECT_EQ(overrides(info_, "bias"), tested->dense_bias());
  EXPECT_EQ(overrides(info_, "score"), info_.traits.content_dependent);
  const Tensor bias = tested->distance_bias(positions);
  EXPECT_EQ(overrides(info_, "distance_bias"), bias.defined());
  EXPECT_TRUE(!bias.defined() || bias.sizes() == torch::IntArrayRef({config_.heads, 4}));
  EXPECT_EQ(info_.scale.empty(), !bias.defined() && !tested->dense_bias()) << "where the bias stands against 1/sqrt(head_dim)";
}

/// Sees the distance d as 1.1·d.
class Stretch : public Extension {
  Positions remap(const Positions& positions, const Lengths&) const override {
    return {positions.values * 1.1, positions.spacing * 1.1};
  }
};

// Distances 1.1, 2.2 and 3.3, which a scheme of whole positions takes for 1, 2 and 3.
TEST_P(Conformance, FractionsOfAPositionCountWhereTheSchemeSaysSo) {
  const Stretch stretch;
  Pass pass;
  pass.extension = &stretch;
  const auto tested = model();
  const Tensor tokens = random_tokens(1, 4);
  const double change = difference(logits_of(*tested, tokens, pass), logits_of(*tested, tokens));
  if (info_.traits.real_positions) EXPECT_GT(change, 1e-3);
  else EXPECT_EQ(change, 0);
}

TEST_P(Conformance, PositionsWithoutAConstantStepTakeTheDenseBiasToTheSameEnd) {
  class Unspaced : public Extension {
    Positions remap(const Positions& positions, const Lengths&) const override { return {positions.values, 0}; }
  };
  const Unspaced unspaced;
  const auto tested = model(torch::kFloat64);
  const Tensor tokens = random_tokens(1, at_most(40));
  const Tensor expected = logits_of(*tested, tokens);
  for (Pass pass : {reference(), blocked(7)}) {
    pass.extension = &unspaced;
    EXPECT_LE(difference(logits_of(*tested, tokens, pass), expected), 1e-12);  // the order of sums, as between the paths
  }
}

/// Every scheme under every way to draw positions.
class WithSampler : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  std::shared_ptr<LanguageModel> model(torch::ScalarType dtype) const {
    const auto& [scheme, sampler] = GetParam();
    at::set_num_threads(1);
    return tiny_model({{"position", {{"scheme", scheme}, {"sampler", {{"method", sampler}, {"max", 40}}}}}}, dtype);
  }
  static Pass drawn(Pass pass, std::uint64_t seed = 11) {
    pass.training = true;
    pass.position_seed = seed;
    return pass;
  }
};

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const SchemeInfo& info : schemes()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(EverySchemeAndSampler, WithSampler,
                         testing::Combine(testing::ValuesIn(scheme_names()), testing::Values("offset", "randomized", "pose")),
                         [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

TEST_P(WithSampler, BlocksOfQueriesGiveTheWhole) {
  const auto tested = model(torch::kFloat64);
  const Tensor tokens = random_tokens(2, kTrainLength + 1), inputs = tokens.slice(1, 0, kTrainLength);
  EXPECT_LE(difference(logits_of(*tested, inputs, drawn(blocked(5))), logits_of(*tested, inputs, drawn(reference()))), 1e-11);
  const auto whole = gradients(*tested, tokens, drawn(reference())), parts = gradients(*tested, tokens, drawn(blocked(5)));
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_LE(difference(whole[i], parts[i]), 1e-10 * (1 + largest(whole[i])));
}

TEST_P(WithSampler, ATokenChangesNothingBeforeIt) {
  const auto tested = model(torch::kFloat32);
  const Tensor tokens = random_tokens(1, 12);
  for (const Pass& pass : {drawn(reference()), drawn(blocked(5))}) {
    const Tensor before = logits_of(*tested, tokens, pass);
    for (const std::int64_t j : {0, 5, 11}) {
      Tensor changed = tokens.clone();
      changed.select(1, j).add_(1).remainder_(kVocab);
      EXPECT_TRUE(torch::equal(before.slice(1, 0, j), logits_of(*tested, changed, pass).slice(1, 0, j))) << j;
    }
  }
}

TEST_P(WithSampler, TheDrawFollowsFromItsSeed) {
  const auto tested = model(torch::kFloat32);
  const Tensor tokens = random_tokens(1, kTrainLength);
  EXPECT_TRUE(torch::equal(logits_of(*tested, tokens, drawn({})), logits_of(*tested, tokens, drawn({}))));
  EXPECT_EQ(tested->refusal(kTrainLength, nullptr), "");
}

TEST(Registry, ANameOrAliasBelongsToOneScheme) {
  std::set<std::string> taken;
  for (const SchemeInfo& info : schemes()) {
    EXPECT_TRUE(taken.insert(info.name).second) << info.name;
    for (const std::string& alias : info.aliases) EXPECT_TRUE(taken.insert(alias).second) << alias;
    EXPECT_FALSE(info.title.empty() || info.paper.empty()) << info.name;
  }
}

// 4 layers of width 128, bytes: embedding 256·128; per layer two norms 2·128, qkv 128·384, out 128·128, MLP 2·128·512; a last
// norm 128.
TEST(ParameterCount, OfTheDefaultModel) {
  const auto count = [](Json model, std::int64_t vocab = 256) {
    ModelConfig config = from_json<ModelConfig>(model);
    config.resolve();
    return make_model(config, vocab, 128)->parameter_count();
  };
  for (const char* scheme : {"none", "sinusoidal", "rope", "alibi"}) EXPECT_EQ(count({{"position", scheme}}), 820352) << scheme;
  EXPECT_EQ(count({{"position", "learned"}}), 836736);                                    // + 128·128
  EXPECT_EQ(count({{"position", "t5"}}), 820480);                                         // + 32·4
  EXPECT_EQ(count({{"position", {{"scheme", "t5"}, {"share_layers", false}}}}), 820864);  // + 4·32·4
  EXPECT_EQ(count({{"position", "rope"}, {"tie_embeddings", false}}), 853120);            // + 256·128
  EXPECT_EQ(count({{"position", "rope"}, {"kv_heads", 1}}), 722048);                      // − 4·128·(384 − 192)
  EXPECT_EQ(count({{"position", "rope"}, {"activation", "swiglu"}}), 1082496);            // + 4·128·512
  EXPECT_EQ(count({{"position", "rope"}}, 100), 800384);                                  // − 156·128
}

// Fault 73: all 64 bits of a seed count.
TEST(InitialWeights, FollowTheSeedAndNothingElse) {
  const auto weights = [](const char* scheme, std::uint64_t seed) {
    auto model = make_model(tiny_config({{"position", scheme}}), kVocab, kTrainLength);
    model->initialise(seed);
    return model->named_parameters()["layers_1.qkv.weight"];
  };
  const Tensor first = weights("rope", 1);
  EXPECT_TRUE(torch::equal(weights("rope", 1), first));
  EXPECT_TRUE(torch::equal(weights("learned", 1), first));  // one more parameter changes no other
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{1} << 32 | 1, std::uint64_t{1} << 40 | 1}) {
    EXPECT_FALSE(torch::equal(weights("rope", seed), first)) << seed;
  }
}

}  // namespace
}  // namespace posenc
