// The check of goldens about protocols: which tokens are scored in which context, and how losses become a perplexity. The loss of
// a token in a context comes from a table, so that only our windows and our statistics are at work.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/statistics.h"
#include "eval/protocols.h"
#include "golden/golden.h"

namespace posenc::golden {
namespace {

/// nll[t][c]: loss of token t after exactly the c tokens before it.
using Table = std::vector<std::vector<double>>;

/// Scored tokens of one window, each with the number of tokens (BOS apart) that were seen before it.
struct Scored {
  std::vector<std::int64_t> inputs, tokens, contexts;

  WindowLoss loss(const Table& table) const {
    WindowLoss sum;
    for (std::size_t i = 0; i < tokens.size(); ++i) sum.nll_sum += table.at(tokens[i]).at(contexts[i]);
    sum.targets = static_cast<std::int64_t>(tokens.size());
    return sum;
  }
};

/// Our windows over a stream whose first token is `first` (−1: a prefix token before token 0). With `full`, a last short window
/// is fed as many tokens as the others: lm-eval's rule, where ours (contract.md §5) keeps it short.
std::vector<Scored> score(const std::vector<EvalWindow>& windows, std::int64_t first, std::int64_t full = 0) {
  std::vector<Scored> all;
  for (const EvalWindow& window : windows) {
    const std::int64_t end = window.begin + window.inputs;
    const std::int64_t begin = std::max<std::int64_t>(0, std::min(window.begin, end - full));
    Scored one;
    for (std::int64_t i = begin; i < end; ++i) one.inputs.push_back(first + i);
    for (std::int64_t i = window.begin + window.first_scored; i < end; ++i) {
      one.tokens.push_back(first + i + 1);
      one.contexts.push_back(first + i + 1 - std::max<std::int64_t>(0, first + begin));
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<WindowLoss> losses(const std::vector<Scored>& windows, const Table& table) {
  std::vector<WindowLoss> all;
  for (const Scored& window : windows) all.push_back(window.loss(table));
  return all;
}

double loss_sum(const std::vector<WindowLoss>& windows) {
  double sum = 0;
  for (const WindowLoss& window : windows) sum += window.nll_sum;
  return sum;
}

double ppl(const std::vector<WindowLoss>& windows) { return perplexity(mean_nll(windows)).value(); }

/// Usual mistakes, so that they are known to be others than the right answer.
double mean_of_window_ppl(const std::vector<WindowLoss>& windows) {
  double sum = 0;
  for (const WindowLoss& w : windows) sum += std::exp(w.nll_sum / static_cast<double>(w.targets));
  return sum / static_cast<double>(windows.size());
}

double ppl_of_mean_window_loss(const std::vector<WindowLoss>& windows) {
  double sum = 0;
  for (const WindowLoss& w : windows) sum += w.nll_sum / static_cast<double>(w.targets);
  return std::exp(sum / static_cast<double>(windows.size()));
}

/// A case of windows, with what its checks share.
struct Windows {
  const Case& one;
  Findings& findings;
  Tolerance tolerance;
  Table table;
  std::int64_t tokens, length, stride;

  std::string place(const std::string& protocol, const std::string& key) const { return one.place(protocol) + "/" + key; }

  void near(const std::string& protocol, const std::string& key, double got) const {
    findings.near(place(protocol, key), got, one.expected().at(protocol).at(key).get<double>(), tolerance);
  }
  void equal(const std::string& protocol, const std::string& key, const Json& got) const {
    findings.equal(place(protocol, key), got, one.expected().at(protocol).at(key));
  }

  /// Contexts by token, null where a token is not scored.
  void contexts(const std::string& protocol, const std::vector<Scored>& windows) const {
    Json seen = std::vector<Json>(static_cast<std::size_t>(tokens));
    for (const Scored& window : windows) {
      for (std::size_t i = 0; i < window.tokens.size(); ++i)
        seen.at(static_cast<std::size_t>(window.tokens[i])) = window.contexts[i];
    }
    equal(protocol, "context_tokens_seen", seen);
  }

  void full_context(const std::string& protocol, std::int64_t first) const {
    const std::int64_t stream = tokens - first;  // the prefix token counts
    const auto whole = losses(score(nonoverlapping_windows(stream, stream - 1), first), table);
    near(protocol, "nll_sum", loss_sum(whole));
    near(protocol, "ppl", ppl(whole));
    equal(protocol, "tokens", whole.at(0).targets);
  }

  void rolling(const std::string& protocol, std::int64_t step) const {
    equal(protocol, "max_seq_len", length);
    equal(protocol, "context_len", length - step + 1);
    const auto windows = score(sliding_windows(tokens + 1, length, step), -1, length);
    const auto loss = losses(windows, table);
    contexts(protocol, windows);
    near(protocol, "loglikelihood", -loss_sum(loss));
    near(protocol, "token_ppl", ppl(loss));
    near(protocol, "wrong_mean_of_window_ppl", mean_of_window_ppl(loss));
    near(protocol, "wrong_ppl_of_mean_window_loss", ppl_of_mean_window_loss(loss));
    const Json& wrong = one.expected().at(protocol);
    const bool same_size =
        std::all_of(loss.begin(), loss.end(), [&](const WindowLoss& w) { return w.targets == loss[0].targets; });
    if (loss.size() > 1)
      findings.differs(place(protocol, "wrong_mean_of_window_ppl"), ppl(loss), wrong.at("wrong_mean_of_window_ppl"), tolerance);
    if (!same_size)
      findings.differs(place(protocol, "wrong_ppl_of_mean_window_loss"), ppl(loss), wrong.at("wrong_ppl_of_mean_window_loss"),
                       tolerance);
    const Json& list = wrong.at("windows");
    findings.equal(place(protocol, "windows"), windows.size(), list.size());
    for (std::size_t i = 0; i < std::min(windows.size(), list.size()); ++i) {
      const std::string at = place(protocol, "windows") + "/" + std::to_string(i);
      findings.equal(at + "/input", windows[i].inputs, list.at(i).at("input"));
      findings.equal(at + "/predict", windows[i].tokens, list.at(i).at("predict"));
      findings.near(at + "/loglikelihood", -loss[i].nll_sum, list.at(i).at("loglikelihood").get<double>(), tolerance);
    }
  }

  /// HF's documentation: `step` == length leaves the first token of every window unscored.
  void hugging_face(const std::string& protocol, const std::vector<Scored>& windows, std::int64_t step) const {
    equal(protocol, "max_length", length);
    equal(protocol, "stride", step);
    const auto loss = losses(windows, table);
    contexts(protocol, windows);
    near(protocol, "nll_sum", loss_sum(loss));
    near(protocol, "ppl", ppl(loss));
    const Json& list = one.expected().at(protocol).at("windows");
    findings.equal(place(protocol, "windows"), windows.size(), list.size());
    std::int64_t scored = 0, end = 0, weights = 0;
    double weighted = 0;
    bool fair = true;  // the snippet's weights are proportional to what each window scores
    for (std::size_t i = 0; i < std::min(windows.size(), list.size()); ++i) {
      const std::string at = place(protocol, "windows") + "/" + std::to_string(i);
      const std::int64_t begin = static_cast<std::int64_t>(i) * step, new_end = std::min(begin + length, tokens),
                         fresh = new_end - end;
      end = new_end;
      findings.equal(at + "/begin", begin, list.at(i).at("begin"));
      findings.equal(at + "/end", end, list.at(i).at("end"));
      findings.equal(at + "/trg_len", fresh, list.at(i).at("trg_len"));
      findings.equal(at + "/scored", windows[i].tokens, list.at(i).at("scored"));
      findings.near(at + "/nll_sum", loss[i].nll_sum, list.at(i).at("nll_sum").get<double>(), tolerance);
      findings.equal(at + "/num_loss_tokens_doc", fresh - 1, list.at(i).at("num_loss_tokens_doc"));
      scored += loss[i].targets;
      weights += fresh - 1;
      if (loss[i].targets > 0)
        weighted += loss[i].nll_sum / static_cast<double>(loss[i].targets) * static_cast<double>(fresh - 1);
      fair = fair && fresh - 1 == loss[i].targets;
    }
    equal(protocol, "tokens_scored", scored);
    const double snippet = std::exp(weighted / static_cast<double>(weights));
    near(protocol, "ppl_printed_by_hf_doc_snippet", snippet);
    if (!fair) findings.differs(place(protocol, "ppl_printed_by_hf_doc_snippet"), ppl(loss), snippet, tolerance);
  }

  /// Each chunk as a text of its own.
  std::vector<Scored> chunks() const {
    std::vector<Scored> all;
    for (std::int64_t begin = 0; begin < tokens; begin += length) {
      const std::int64_t size = std::min(length, tokens - begin);
      const auto windows = size > 1 ? nonoverlapping_windows(size, length - 1) : std::vector<EvalWindow>{};
      Scored chunk = windows.empty() ? Scored{} : score(windows, 0).at(0);
      for (std::int64_t& token : chunk.tokens) token += begin;
      all.push_back(std::move(chunk));
    }
    return all;
  }
};

void check_windows(Findings& findings, const Case& one, const Tolerance& tolerance) {
  const Json& p = one.params();
  const auto length = p.at("max_len").get<std::int64_t>(), stride = p.at("stride").get<std::int64_t>();
  const Windows w{
      one,    findings, tolerance, one.inputs().at("nll_by_token_and_context").get<Table>(), p.at("n_tokens").get<std::int64_t>(),
      length, stride};
  for (const auto& [protocol, want] : one.expected().items()) {
    if (protocol == "full_context_bos") w.full_context(protocol, -1);
    else if (protocol == "full_context_no_bos") w.full_context(protocol, 0);
    else if (protocol == "lm_eval_rolling_disjoint") w.rolling(protocol, length);
    else if (protocol == "lm_eval_rolling_stride") w.rolling(protocol, stride);
    else if (protocol == "hf_nonoverlapping") w.hugging_face(protocol, w.chunks(), length);
    else if (protocol != "hf_sliding") findings.leave_out(one.place(protocol), "not built: no such protocol");
    else if (stride < length) w.hugging_face(protocol, score(sliding_windows(w.tokens, length - 1, stride), 0), stride);
    else w.hugging_face(protocol, w.chunks(), stride);
  }
}

void check_aggregate(Findings& findings, const Case& one, const Tolerance& tolerance) {
  std::vector<WindowLoss> by_word, by_byte, by_token;
  for (const Json& document : one.inputs().at("documents")) {
    const double nll = -document.at("loglikelihood").get<double>();
    const auto bytes = static_cast<std::int64_t>(document.at("text").get<std::string>().size());  // UTF-8
    findings.equal(one.pointer + "/inputs", bytes, document.at("bytes"));
    by_word.push_back({nll, document.at("words").get<std::int64_t>()});
    by_byte.push_back({nll, bytes});
    by_token.push_back({nll, document.at("tokens").get<std::int64_t>()});
  }
  const auto near = [&](const std::string& key, double got) {
    findings.near(one.place(key), got, one.expected().at(key).get<double>(), tolerance);
  };
  near("word_perplexity", ppl(by_word));
  near("byte_perplexity", ppl(by_byte));
  near("bits_per_byte", mean_nll(by_byte) / std::numbers::ln2);
  near("token_perplexity", ppl(by_token));
  near("wrong_mean_of_document_token_ppl", mean_of_window_ppl(by_token));
  findings.differs(one.place("wrong_mean_of_document_token_ppl"), ppl(by_token),
                   one.expected().at("wrong_mean_of_document_token_ppl"), tolerance);
}

}  // namespace

Findings check_perplexity_protocol(const Golden& golden) {
  Findings findings;
  const Tolerance tolerance{0, golden.root.at("tolerance").at("rel").get<double>()};
  for (const Case& one : cases(golden)) {
    const auto kind = one.body->at("kind").get<std::string>();
    if (kind == "windows") check_windows(findings, one, tolerance);
    else if (kind == "aggregate") check_aggregate(findings, one, tolerance);
    else findings.leave_out(one.pointer, "not built: no such kind of case: " + kind);
  }
  return findings;
}

}  // namespace posenc::golden
