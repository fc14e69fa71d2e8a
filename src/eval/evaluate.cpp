#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/files.h"
#include "core/parallel.h"
#include "core/rng.h"

namespace posenc {
namespace {

/// Consecutive windows of one shape, scored in one forward.
struct Group {
  std::size_t first, count;
};

std::vector<Group> group_windows(const std::vector<EvalWindow>& windows) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const bool same = !groups.empty() && windows[i].inputs == windows[groups.back().first].inputs &&
                      windows[i].first_scored == windows[groups.back().first].first_scored &&
                      static_cast<std::int64_t>(groups.back().count + 1) * windows[i].inputs <= kGroupTokens;
    if (same) ++groups.back().count;
    else groups.push_back({i, 1});
  }
  return groups;
}

void score_group(const LanguageModel& model, const std::vector<std::int32_t>& tokens, const std::vector<EvalWindow>& windows,
                 const Group& group, Pass pass, std::uint64_t seed, std::vector<std::vector<double>>& nll) {
  const torch::InferenceMode inference;
  at::set_num_threads(1);  // per thread: parallelism is over groups
  const EvalWindow& shape = windows[group.first];
  const auto rows = static_cast<std::int64_t>(group.count);
  Tensor window = torch::empty({rows, shape.inputs + 1}, torch::kInt64);
  auto* out = window.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < group.count; ++i)
    out = std::copy_n(tokens.begin() + windows[group.first + i].begin, shape.inputs + 1, out);
  const Tensor targets = window.slice(1, shape.first_scored + 1).flatten();  // [B·K]
  Tensor loss;                                                               // [B·K] float64
  for (std::int64_t draw = 0; draw < model.position_draws(); ++draw) {
    pass.position_seed = derive_seed(derive_seed(seed, "positions", group.first), "draw", static_cast<std::uint64_t>(draw));
    const Tensor hidden = model.hidden(window.slice(1, 0, shape.inputs), pass);  // [B, T, C]
    const Tensor of_draw = target_nll(model, hidden.slice(1, shape.first_scored).flatten(0, 1), targets, pass.threads);
    loss = draw == 0 ? of_draw : loss + of_draw;
  }
  loss = loss / static_cast<double>(model.position_draws());
  const auto* value = loss.data_ptr<double>();
  for (std::size_t i = 0; i < group.count; ++i, value += shape.targets())
    nll[group.first + i].assign(value, value + shape.targets());
}

/// −log p of the targets of consecutive windows, the state carried from each to the next.
std::vector<std::vector<double>> score_carried(const LanguageModel& model, const std::vector<std::int32_t>& tokens,
                                               const std::vector<EvalWindow>& windows, const EvalSettings& settings) {
  const torch::InferenceMode inference;
  at::set_num_threads(1);
  KvCache cache;
  Pass pass;
  pass.cache = &cache;
  std::vector<std::vector<double>> nll;
  for (const EvalWindow& w : windows) {
    if (settings.stop && settings.stop()) throw Error(ExitCode::kStopped, "stopped by a signal during evaluation");
    cache.tokens.reset();  // the layers' states hold all there is to know of them
    const Tensor window =
        torch::tensor(std::vector<std::int64_t>(tokens.begin() + w.begin, tokens.begin() + w.begin + w.inputs + 1));
    const Tensor hidden = model.hidden(window.slice(0, 0, w.inputs).unsqueeze(0), pass)[0];
    const Tensor loss = target_nll(model, hidden, window.slice(0, 1), settings.threads);
    nll.emplace_back(loss.data_ptr<double>(), loss.data_ptr<double>() + loss.numel());
  }
  return nll;
}

/// What all cells of one evaluation share.
struct Context {
  const LanguageModel& model;
  const Dataset& dataset;
  const Split& split;
  const EvalSettings& settings;
  std::int64_t longest;
};

std::vector<EvalWindow> cell_windows(const Context& c, const std::string& protocol, std::int64_t length, std::int64_t stride) {
  const auto all = static_cast<std::int64_t>(c.split.tokens.size());
  if (protocol == "fixed_target")
    return fixed_target_windows(all, c.longest, length, *c.settings.config.targets, c.settings.config.windows);
  const std::int64_t tokens = c.settings.config.tokens == 0 ? all : std::min(all, c.settings.config.tokens);
  return protocol == "sliding" ? sliding_windows(tokens, length, stride) : nonoverlapping_windows(tokens, length);
}

/// Bytes of text that the scored targets stand for; 0 where nobody knows.
std::int64_t scored_bytes(const Context& c, const std::vector<EvalWindow>& windows) {
  if (c.dataset.tokenizer->unit() == "token") return 0;
  std::int64_t bytes = 0;
  for (const EvalWindow& w : windows) {
    const auto first = c.split.tokens.begin() + w.begin + w.first_scored + 1;
    bytes += static_cast<std::int64_t>(c.dataset.tokenizer->decode({first, first + w.targets()}).size());
  }
  return bytes;
}

/// Fills nll, stderr, ppl and bits per byte, or marks the cell diverged.
void fill(Cell& cell, const std::vector<std::vector<double>>& nll, std::int64_t bytes) {
  std::vector<WindowLoss> windows;
  for (const auto& window : nll)
    windows.push_back({std::accumulate(window.begin(), window.end(), 0.0), static_cast<std::int64_t>(window.size())});
  const double mean = mean_nll(windows);
  for (const WindowLoss& w : windows) cell.targets += w.targets;
  if (!std::isfinite(mean)) {
    cell.status = "diverged";
    cell.reason = "loss is not finite at length " + std::to_string(cell.length);
    return;
  }
  cell.nll = mean;
  cell.stderr_ = bootstrap_stderr(windows);
  cell.ppl = perplexity(mean);
  if (bytes > 0) cell.bits_per_byte = mean * static_cast<double>(cell.targets) / (std::numbers::ln2 * static_cast<double>(bytes));
  if (cell.protocol != "fixed_target") return;
  for (const WindowLoss& w : windows) cell.window_nll.push_back(w.nll_sum / static_cast<double>(w.targets));
}

Cell score_cell(const Context& c, const std::string& label, const Extension* extension, const std::string& protocol,
                std::int64_t length) {
  Cell cell;
  cell.extension = label;
  cell.length = cell.window = length;
  cell.protocol = protocol;
  const std::int64_t sliding_stride = c.settings.config.stride.value_or(std::max<std::int64_t>(1, length / 2));
  cell.stride = protocol == "sliding" ? sliding_stride : protocol == "fixed_target" ? *c.settings.config.targets : length;
  cell.reason = c.model.refusal(length, extension);
  if (!cell.reason.empty()) {
    cell.status = "refused";
    return cell;
  }
  const auto windows = cell_windows(c, protocol, length, sliding_stride);
  const bool carried = c.settings.config.state == "carry" && protocol == "nonoverlapping";
  fill(cell,
       carried ? score_carried(c.model, c.split.tokens, windows, c.settings)
               : score_windows(c.model, c.split.tokens, windows, extension, c.settings),
       scored_bytes(c, windows));
  return cell;
}

void score_positions(const Context& c, const std::string& label, const Extension* extension, std::vector<PositionBucket>& out) {
  std::vector<std::int64_t> lengths = c.settings.config.lengths;
  std::sort(lengths.rbegin(), lengths.rend());
  const auto fits =
      std::find_if(lengths.begin(), lengths.end(), [&](std::int64_t n) { return c.model.refusal(n, extension).empty(); });
  if (fits == lengths.end()) return;
  const std::int64_t length = *fits;
  const auto windows = fixed_target_windows(static_cast<std::int64_t>(c.split.tokens.size()), length, length, length,
                                            c.settings.config.by_position);
  const auto nll = score_windows(c.model, c.split.tokens, windows, extension, c.settings);
  const auto bounds = position_bounds(length);
  for (std::size_t b = 0; b + 1 < bounds.size(); ++b) {
    std::vector<WindowLoss> parts;
    for (const auto& window : nll) {
      parts.push_back(
          {std::accumulate(window.begin() + bounds[b], window.begin() + bounds[b + 1], 0.0), bounds[b + 1] - bounds[b]});
    }
    PositionBucket bucket{
        label, length, bounds[b], bounds[b + 1], static_cast<std::int64_t>(parts.size()) * (bounds[b + 1] - bounds[b]), {}, {}};
    const double mean = mean_nll(parts);
    if (std::isfinite(mean)) {
      bucket.nll = mean;
      bucket.stderr_ = bootstrap_stderr(parts);
    }
    out.push_back(bucket);
  }
}

}  // namespace

std::vector<std::vector<double>> score_windows(const LanguageModel& model, const std::vector<std::int32_t>& tokens,
                                               const std::vector<EvalWindow>& windows, const Extension* extension,
                                               const EvalSettings& settings) {
  for (const EvalWindow& w : windows) {
    POSENC_CHECK(
        w.begin >= 0 && w.begin + w.inputs < static_cast<std::int64_t>(tokens.size()) && w.first_scored >= 0 && w.targets() > 0,
        "a window lies in the text and scores some of its own targets");
  }
  std::vector<std::vector<double>> nll(windows.size());
  const std::vector<Group> groups = group_windows(windows);
  Pass pass;
  pass.attention = settings.attention;
  pass.extension = extension;
  // Windows in parallel; the threads join forces on each where there are too few of them, or where several at once need too much.
  const auto count = static_cast<std::int64_t>(groups.size());
  const bool together = count < settings.threads || (count > 0 && windows[0].inputs > kLongWindow);
  pass.threads = together ? settings.threads : 1;
  parallel_for(count, together ? 1 : settings.threads, [&](std::int64_t i) {
    if (settings.stop && settings.stop()) throw Error(ExitCode::kStopped, "stopped by a signal during evaluation");
    score_group(model, tokens, windows, groups[static_cast<std::size_t>(i)], pass, settings.seed, nll);
  });
  return nll;
}

double mean_loss(const LanguageModel& model, const Split& split, std::int64_t length, std::int64_t tokens,
                 const EvalSettings& settings) {
  const auto count = std::min(tokens, static_cast<std::int64_t>(split.tokens.size()));
  std::vector<WindowLoss> losses;
  for (const auto& window : score_windows(model, split.tokens, nonoverlapping_windows(count, length), nullptr, settings)) {
    losses.push_back({std::accumulate(window.begin(), window.end(), 0.0), static_cast<std::int64_t>(window.size())});
  }
  return mean_nll(losses);
}

std::string protocol_hash(const Dataset& dataset, const EvalConfig& config) {
  Json what = {{"split", config.split},
               {"text", dataset.split(config.split).sha256},
               {"tokenizer", dataset.tokenizer->state()},
               {"bos", "none"},
               {"protocols", config.protocols},
               {"windows", config.windows},
               {"targets", *config.targets},
               {"tokens", config.tokens},
               {"longest", *std::max_element(config.lengths.begin(), config.lengths.end())}};
  if (config.state != "reset") what["state"] = config.state;
  what["stride"] = config.stride ? Json(*config.stride) : Json("half the window");
  return sha256(dump_json_line(what)).substr(0, 16);
}

Evaluation evaluate(const LanguageModel& model, const Dataset& dataset, const EvalSettings& settings) {
  const EvalConfig& config = settings.config;
  const Context context{model, dataset, dataset.split(config.split), settings,
                        *std::max_element(config.lengths.begin(), config.lengths.end())};
  require_window(context.split, context.longest);
  Evaluation result;
  result.protocol_hash = protocol_hash(dataset, config);
  const std::size_t cells = (1 + config.extensions.size()) * config.protocols.size() * config.lengths.size();
  for (std::size_t e = 0; e <= config.extensions.size(); ++e) {
    const auto extension = e == 0 ? nullptr : make_extension(config.extensions[e - 1]);
    const std::string label = e == 0 ? "none" : config.extensions[e - 1].label();
    for (const std::string& protocol : config.protocols) {
      for (const std::int64_t length : config.lengths) {
        if (settings.progress)
          settings.progress(protocol + " at " + std::to_string(length),
                            static_cast<double>(result.cells.size()) / static_cast<double>(cells));
        result.cells.push_back(score_cell(context, label, extension.get(), protocol, length));
      }
    }
    if (config.by_position > 0) score_positions(context, label, extension.get(), result.by_position);
  }
  return result;
}

}  // namespace posenc
