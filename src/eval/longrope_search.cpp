#include "eval/longrope_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/rng.h"
#include "core/statistics.h"
#include "schemes/rope.h"

namespace posenc {
namespace {

/// How many first positions may keep the trained frequencies: the paper's list.
constexpr std::int64_t kUnscaled[] = {0, 1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 64, 128, 256};

/// The divisors that an extension of frequencies comes to.
std::vector<double> divisors(const Json& named, const Frequencies& trained, const Lengths& lengths) {
  const Tensor ratio = (trained.inv_freq / make_extension(named)->frequencies(trained, lengths).inv_freq).contiguous();
  return {ratio.data_ptr<double>(), ratio.data_ptr<double>() + ratio.numel()};
}

}  // namespace

Json longrope_extension(const LongRopeChoice& choice, double scale) {
  return {
      {"method", "longrope"}, {"long_factor", choice.factors}, {"factor", std::max(1.0, scale)}, {"unscaled", choice.unscaled}};
}

LongRopeSearch::LongRopeSearch(const LanguageModel& model, const Split& split, LongRopeSettings settings, EvalSettings evaluation)
    : model_(model), split_(split), settings_(settings), evaluation_(std::move(evaluation)) {
  if (settings.length <= settings.train_length) {
    throw ConfigError("a search needs a length beyond the training length " + std::to_string(settings.train_length) + ", not " +
                      std::to_string(settings.length));
  }
  require_window(split, settings.length);
  const std::string refusal = model.refusal(settings.length, nullptr);
  if (!refusal.empty()) throw ConfigError(refusal);
  windows_ = fixed_target_windows(static_cast<std::int64_t>(split.tokens.size()), settings.length, settings.length,
                                  std::min(settings.targets, settings.length), settings.windows);
}

double LongRopeSearch::score(const LongRopeChoice& choice) const {
  const auto extension = make_extension(longrope_extension(choice, scale()));
  std::vector<WindowLoss> losses;
  for (const auto& window : score_windows(model_, split_.tokens, windows_, extension.get(), evaluation_))
    losses.push_back({std::accumulate(window.begin(), window.end(), 0.0), static_cast<std::int64_t>(window.size())});
  const double nll = mean_nll(losses);
  return std::isfinite(nll) ? nll : std::numeric_limits<double>::max();  // the worst there is
}

LongRopeChoice LongRopeSearch::within_bounds(LongRopeChoice choice) const {
  for (double& factor : choice.factors) factor = std::round(std::clamp(factor, 1.0, largest_factor()) * 100) / 100;
  std::sort(choice.factors.begin(), choice.factors.end());
  return choice;
}

LongRopeChoice LongRopeSearch::mutated(LongRopeChoice choice, Rng& rng) const {
  for (double& factor : choice.factors) {
    if (rng.uniform() < settings_.mutation) factor = 1 + (largest_factor() - 1) * rng.uniform();
  }
  if (rng.uniform() < settings_.mutation) choice.unscaled = kUnscaled[rng.below(std::size(kUnscaled))];
  return within_bounds(std::move(choice));
}

double LongRopeSearch::add(const LongRopeChoice& choice) {
  const auto known = std::ranges::find(population_, choice, &Candidate::choice);
  if (known != population_.end()) return known->nll;
  population_.push_back({choice, score(choice)});
  return population_.back().nll;
}

void LongRopeSearch::add_seeds(Rng& rng) {
  const Frequencies trained{torch::tensor(rope_inv_freq(2 * settings_.pairs, settings_.base), torch::kFloat64), settings_.base};
  const Lengths lengths{settings_.train_length, settings_.length};
  std::vector<std::pair<std::string, LongRopeChoice>> seeds = {
      {"pi", {std::vector<double>(static_cast<std::size_t>(settings_.pairs), scale())}},
      {"yarn", {divisors("yarn", trained, lengths)}}};
  if (settings_.pairs > 1) seeds.push_back({"ntk", {divisors("ntk", trained, lengths)}});
  for (const auto& [name, choice] : seeds) seeds_[name] = add(within_bounds(choice));
  while (static_cast<std::int64_t>(population_.size()) < settings_.population) {
    const std::size_t before = population_.size();
    add(mutated(seeds[rng.below(seeds.size())].second, rng));
    if (population_.size() == before) break;  // too few different ones at this factor
  }
}

void LongRopeSearch::add_children(Rng& rng) {
  population_.resize(std::max<std::size_t>(2, (population_.size() + 1) / 2));
  const std::size_t parents = population_.size();
  const auto parent = [&] { return population_[rng.below(parents)].choice; };
  for (std::int64_t i = 0; i < settings_.population - static_cast<std::int64_t>(parents); ++i) {
    LongRopeChoice child = parent();
    if (i % 2 == 0) {
      add(mutated(std::move(child), rng));
      continue;
    }
    const LongRopeChoice other = parent();
    for (std::size_t k = 0; k < child.factors.size(); ++k) {
      if (rng.below(2) == 1) child.factors[k] = other.factors[k];
    }
    if (rng.below(2) == 1) child.unscaled = other.unscaled;
    add(within_bounds(std::move(child)));
  }
}

void LongRopeSearch::step() {
  Rng rng(derive_seed(settings_.seed, "longrope", static_cast<std::uint64_t>(iteration_)));
  if (population_.size() < 2) add_seeds(rng);
  else add_children(rng);
  std::stable_sort(population_.begin(), population_.end(), [](const Candidate& a, const Candidate& b) { return a.nll < b.nll; });
  ++iteration_;
}

Json LongRopeSearch::settings_json() const {
  return {{"length", settings_.length},
          {"train_length", settings_.train_length},
          {"population", settings_.population},
          {"mutation", settings_.mutation},
          {"windows", settings_.windows},
          {"targets", settings_.targets},
          {"seed", settings_.seed},
          {"text", split_.sha256}};
}

Json LongRopeSearch::state() const {
  Json population = Json::array();
  for (const auto& [choice, nll] : population_)
    population.push_back({{"nll", nll}, {"factors", choice.factors}, {"unscaled", choice.unscaled}});
  return {{"settings", settings_json()}, {"iteration", iteration_}, {"seeds", seeds_}, {"population", std::move(population)}};
}

void LongRopeSearch::restore(const Json& state, const std::string& source) {
  try {
    if (state.at("settings") != settings_json())
      throw ConfigError(source + " is of a search with other settings; name another file");
    std::vector<Candidate> population;
    for (const Json& c : state.at("population"))
      population.push_back(
          {{c.at("factors").get<std::vector<double>>(), c.at("unscaled").get<std::int64_t>()}, c.at("nll").get<double>()});
    population_ = std::move(population);
    seeds_ = state.at("seeds");
    iteration_ = state.at("iteration").get<std::int64_t>();
  } catch (const Json::exception&) {
    throw DataError(source + ": not the state of a search");
  }
}

}  // namespace posenc
