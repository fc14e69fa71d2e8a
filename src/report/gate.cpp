#include "report/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "core/error.h"

namespace posenc {
namespace {

constexpr double kRounding = 1e-12;  // 30 is not above 30, although exp(log(30)) is; 102 against 100 is not above 2 %

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw ConfigError(fmt::format(
      "--fail-on {}: {}; write METRIC[@LENGTH]>[+]AMOUNT[%], for example ppl@512>+2%, nll>+0.01 or ppl@2048>30", text, why));
}

template <class T>
bool parse_whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

GateMetric parse_metric(const std::string& text, std::string_view name) {
  if (name == "ppl") return GateMetric::kPerplexity;
  if (name == "nll") return GateMetric::kNll;
  if (name == "bpb" || name == "bits_per_byte") return GateMetric::kBitsPerByte;
  if (name == "error") return GateMetric::kError;
  refuse(text, fmt::format("\"{}\" is no metric (there are ppl, nll, bits_per_byte, error)", name));
}

void parse_place(Gate& gate, std::string_view place) {
  constexpr std::array<std::string_view, 3> kProtocols = {"fixed_target", "nonoverlapping", "sliding"};
  const bool digits = !place.empty() && place.find_first_not_of("0123456789") == std::string_view::npos;
  const bool protocol = std::find(kProtocols.begin(), kProtocols.end(), place) != kProtocols.end();
  if (place.empty()) refuse(gate.text, "nothing stands after @");
  if (digits ? gate.length.has_value() : protocol ? !gate.protocol.empty() : !gate.scheme.empty())
    refuse(gate.text, "two of a kind after @");
  std::int64_t length = 0;
  if (digits && (!parse_whole(place, length) || length < 1)) refuse(gate.text, fmt::format("{} is no length", place));
  if (digits) gate.length = length;
  else (protocol ? gate.protocol : gate.scheme) = place;
}

void parse_limit(Gate& gate, std::string_view limit) {
  gate.change = limit.starts_with('+') || limit.starts_with('-');
  const bool negative = limit.starts_with('-');
  if (gate.change) limit.remove_prefix(1);
  gate.relative = limit.ends_with('%');
  if (gate.relative) limit.remove_suffix(1);
  const bool starts_well = !limit.empty() && (limit[0] == '.' || (limit[0] >= '0' && limit[0] <= '9'));
  if (!starts_well || !parse_whole(limit, gate.amount) || !std::isfinite(gate.amount))
    refuse(gate.text, "no number stands after >");
  if (gate.relative && !gate.change) refuse(gate.text, "a percentage is a change and needs its sign");
  if (negative) gate.amount = -gate.amount;
  if (gate.relative) gate.amount /= 100;
}

/// The perplexity is the file's own, so that one that does not belong to its loss is judged too; infinite where it overflows, so
/// that an overflow breaks a gate rather than slips through.
std::optional<double> value_of(GateMetric metric, const Cell& cell) {
  if (metric == GateMetric::kError) return std::nullopt;
  if (metric == GateMetric::kBitsPerByte) return cell.bits_per_byte;
  return metric == GateMetric::kNll ? *cell.nll : cell.ppl.value_or(std::exp(*cell.nll));
}

/// candidate − baseline in the gate's terms: absolute, or as a fraction of the baseline.
double change_of(const Gate& gate, const Cell& baseline, const Cell& candidate) {
  const bool overflows = !baseline.ppl || !candidate.ppl;
  if (gate.metric == GateMetric::kPerplexity && gate.relative && overflows) return std::expm1(*candidate.nll - *baseline.nll);
  const double before = *value_of(gate.metric, baseline);
  const double change = *value_of(gate.metric, candidate) - before;
  return gate.relative && change != 0 ? change / before : change;
}

double error_of(const Accuracy& accuracy) { return 1 - *accuracy.exact_match; }

double change_of(const Gate& gate, const Accuracy& baseline, const Accuracy& candidate) {
  const double change = error_of(candidate) - error_of(baseline);
  return gate.relative && change != 0 ? change / error_of(baseline) : change;
}

}  // namespace

Gate parse_gate(const std::string& text) {
  Gate gate;
  gate.text = text;
  std::string compact;
  for (const char c : text) {
    if (c != ' ') compact += c;
  }
  const std::size_t sign = compact.find('>');
  if (sign == std::string::npos) refuse(text, "there is no >");
  std::string_view left = std::string_view(compact).substr(0, sign);
  gate.metric = parse_metric(text, left.substr(0, left.find('@')));
  for (std::size_t at = left.find('@'); at != std::string_view::npos; at = left.find('@')) {
    left.remove_prefix(at + 1);
    parse_place(gate, left.substr(0, left.find('@')));
  }
  parse_limit(gate, std::string_view(compact).substr(sign + 1));
  return gate;
}

std::vector<Gate> default_gates() { return {parse_gate("ppl>+2%"), parse_gate("nll>+0.02")}; }

std::vector<Gate> default_gates(const std::vector<Results>& baseline, const std::vector<Results>& candidate) {
  const auto on_task = [](const Results& run) { return !run.task.empty(); };
  const bool any = std::ranges::any_of(baseline, on_task) || std::ranges::any_of(candidate, on_task);
  const bool all = any && std::ranges::all_of(baseline, on_task) && std::ranges::all_of(candidate, on_task);
  std::vector<Gate> gates = all ? std::vector<Gate>{} : default_gates();
  if (any) gates.push_back(parse_gate("error>+0.05"));
  return gates;
}

bool gate_applies(const Gate& gate, const std::string& scheme, const Accuracy& accuracy) {
  return gate.metric == GateMetric::kError && (!gate.length || *gate.length == accuracy.length) && gate.protocol.empty() &&
         (gate.scheme.empty() || gate.scheme == scheme);
}

bool gate_fails(const Gate& gate, const Accuracy* baseline, const Accuracy& candidate) {
  if (!gate.change) return !(error_of(candidate) <= gate.amount * (1 + kRounding));
  POSENC_CHECK(baseline != nullptr, "a change needs a baseline");
  return !(change_of(gate, *baseline, candidate) <= gate.amount + kRounding);
}

bool gate_gains(const Gate& gate, const Accuracy& baseline, const Accuracy& candidate) {
  return gate.change && gate.amount > 0 && change_of(gate, baseline, candidate) < -gate.amount - kRounding;
}

bool gate_applies(const Gate& gate, const std::string& scheme, const Cell& cell) {
  return (!gate.length || *gate.length == cell.length) && (gate.protocol.empty() || gate.protocol == cell.protocol) &&
         (gate.scheme.empty() || gate.scheme == scheme) && value_of(gate.metric, cell).has_value();
}

bool gate_fails(const Gate& gate, const Cell* baseline, const Cell& candidate) {
  if (!gate.change) return !(*value_of(gate.metric, candidate) <= gate.amount * (1 + kRounding));
  POSENC_CHECK(baseline != nullptr, "a change needs a baseline");
  return !(change_of(gate, *baseline, candidate) <= gate.amount + kRounding);  // NaN (both overflow) fails
}

bool gate_gains(const Gate& gate, const Cell& baseline, const Cell& candidate) {
  return gate.change && gate.amount > 0 && change_of(gate, baseline, candidate) < -gate.amount - kRounding;
}

}  // namespace posenc
