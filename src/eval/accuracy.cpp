#include "eval/accuracy.h"

#include <algorithm>
#include <functional>

#include "core/files.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "train/batch_source.h"

namespace posenc {
namespace {

std::vector<TaskSequence> encode_all(const TaskData& data, const std::vector<Example>& examples) {
  std::vector<TaskSequence> sequences;
  for (const Example& example : examples) sequences.push_back(data.encode(example));
  return sequences;
}

/// Examples of one forward, by index.
struct Group {
  std::size_t first, end;
};

Batch batch_of(const std::vector<TaskSequence>& sequences, const Group& group) {
  const auto begin = sequences.begin();
  return pad_sequences({begin + static_cast<std::ptrdiff_t>(group.first), begin + static_cast<std::ptrdiff_t>(group.end)});
}

std::vector<Group> group_sequences(std::size_t count, std::int64_t window) {
  const auto rows = static_cast<std::size_t>(std::max<std::int64_t>(1, kGroupTokens / window));
  std::vector<Group> groups;
  for (std::size_t first = 0; first < count; first += rows) groups.push_back({first, std::min(first + rows, count)});
  return groups;
}

/// The likeliest token after each input: [rows, T] int64, −1 where `wanted` [rows, T] is false.
Tensor predictions(const LanguageModel& model, const Tensor& inputs, const Tensor& wanted, const Pass& pass) {
  const Tensor at = wanted.flatten().nonzero().squeeze(1);                             // [n]
  const Tensor hidden = model.hidden(inputs, pass).flatten(0, 1).index_select(0, at);  // [n, C]
  const Tensor likeliest = model.logits(hidden).argmax(-1);                            // [n]
  return torch::full({inputs.numel()}, -1, torch::kInt64).index_copy(0, at, likeliest).view(inputs.sizes());
}

void score_group(const LanguageModel& model, const std::vector<TaskSequence>& sequences, const Group& group, const Pass& pass,
                 std::vector<AnswerScore>& scores) {
  const Batch batch = batch_of(sequences, group);
  const Tensor answers = batch.targets.masked_fill(batch.targets == kEnd, -1);
  const Tensor wanted = answers >= 0;
  const Tensor right = (predictions(model, batch.inputs, wanted, pass) == answers).logical_and(wanted).sum(1);  // [rows]
  for (std::size_t i = group.first; i < group.end; ++i)
    scores[i] = {right[static_cast<std::int64_t>(i - group.first)].item<std::int64_t>(), sequences[i].answer};
}

/// Calls body(i, pass) for every group, on the settings' threads; few groups, or long ones, are computed by all threads together.
void for_each_group(const std::vector<Group>& groups, std::int64_t window, const Extension* extension,
                    const EvalSettings& settings, const std::function<void(std::size_t, const Pass&)>& body) {
  const auto count = static_cast<std::int64_t>(groups.size());
  const bool together = count < settings.threads || window > kLongWindow;
  parallel_for(count, together ? 1 : settings.threads, [&](std::int64_t i) {
    if (settings.stop && settings.stop()) throw Error(ExitCode::kStopped, "stopped by a signal during evaluation");
    const torch::InferenceMode inference;
    at::set_num_threads(1);  // per thread: parallelism is over groups
    Pass pass;
    pass.attention = settings.attention;
    pass.extension = extension;
    pass.window = window;
    pass.threads = together ? settings.threads : 1;
    pass.position_seed = derive_seed(settings.seed, "positions", static_cast<std::uint64_t>(i));
    body(static_cast<std::size_t>(i), pass);
  });
}

void fill(Accuracy& accuracy, const std::vector<AnswerScore>& scores) {
  std::int64_t whole = 0;
  std::vector<WindowLoss> tokens;  // a token wrong costs one, so that the loss is the share of wrong tokens
  for (const AnswerScore& score : scores) {
    if (score.right == score.tokens) ++whole;
    tokens.push_back({static_cast<double>(score.tokens - score.right), score.tokens});
  }
  accuracy.examples = static_cast<std::int64_t>(scores.size());
  accuracy.exact_match = static_cast<double>(whole) / static_cast<double>(accuracy.examples);
  accuracy.token_accuracy = 1 - mean_nll(tokens);
  accuracy.token_stderr = bootstrap_stderr(tokens);
  accuracy = settled(std::move(accuracy));
}

void score_length(const LanguageModel& model, const TaskData& data, const Extension* extension, const EvalSettings& settings,
                  Accuracy& accuracy) {
  const std::int64_t window = data.inputs(accuracy.length);
  accuracy.reason = model.refusal(window, extension);
  if (accuracy.reason.empty()) {
    const std::vector<Example> examples = data.examples(settings.config.split, accuracy.length, accuracy.depth.value_or(0));
    if (!examples.empty()) return fill(accuracy, score_answers(model, encode_all(data, examples), window, extension, settings));
    accuracy.reason =
        "every question of length " + std::to_string(accuracy.length) + " is for another part than " + settings.config.split;
  }
  accuracy.status = "refused";
}

}  // namespace

std::vector<AnswerScore> score_answers(const LanguageModel& model, const std::vector<TaskSequence>& sequences,
                                       std::int64_t window, const Extension* extension, const EvalSettings& settings) {
  std::vector<AnswerScore> scores(sequences.size());
  const std::vector<Group> groups = group_sequences(sequences.size(), window);
  for_each_group(groups, window, extension, settings,
                 [&](std::size_t i, const Pass& pass) { score_group(model, sequences, groups[i], pass, scores); });
  return scores;
}

std::vector<Accuracy> accuracy_without_numbers(const TaskData& data, const EvalConfig& config, const std::string& status,
                                               const std::string& reason) {
  std::vector<std::optional<double>> depths = {std::nullopt};
  if (data.config().depths) depths.assign(data.config().depths->begin(), data.config().depths->end());
  std::vector<Accuracy> all;
  for (std::size_t e = 0; e <= config.extensions.size(); ++e) {
    for (const std::int64_t length : *data.config().test_lengths) {
      for (const std::optional<double>& depth : depths) {
        Accuracy accuracy;
        accuracy.extension = e == 0 ? "none" : config.extensions[e - 1].label();
        accuracy.length = length;
        accuracy.depth = depth;
        accuracy.status = status;
        accuracy.reason = reason;
        all.push_back(accuracy);
      }
    }
  }
  return all;
}

std::vector<Accuracy> evaluate_accuracy(const LanguageModel& model, const TaskData& data, const EvalSettings& settings) {
  std::vector<Accuracy> all = accuracy_without_numbers(data, settings.config, "ok", "");
  const std::size_t each = all.size() / (1 + settings.config.extensions.size());
  std::unique_ptr<Extension> extension;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i >= each && i % each == 0) extension = make_extension(settings.config.extensions[i / each - 1]);
    if (settings.progress)
      settings.progress("length " + std::to_string(all[i].length), static_cast<double>(i) / static_cast<double>(all.size()));
    score_length(model, data, extension.get(), settings, all[i]);
  }
  return all;
}

double answer_loss(const LanguageModel& model, const TaskData& data, std::int64_t count, const EvalSettings& settings) {
  const std::vector<TaskSequence> sequences = data.sequences("valid", 0, 0, count);
  const std::int64_t window = std::ranges::max(sequences, {}, &TaskSequence::inputs).inputs();
  const std::vector<Group> groups = group_sequences(sequences.size(), window);
  std::vector<WindowLoss> losses(groups.size());
  for_each_group(groups, window, nullptr, settings, [&](std::size_t i, const Pass& pass) {
    const Batch batch = batch_of(sequences, groups[i]);
    const Tensor targets = batch.targets.flatten();
    const Tensor at = (targets >= 0).nonzero().squeeze(1);                                     // [n]
    const Tensor hidden = model.hidden(batch.inputs, pass).flatten(0, 1).index_select(0, at);  // [n, C]
    const Tensor nll = target_nll(model, hidden, targets.index_select(0, at), pass.threads);   // [n]
    losses[i] = {nll.sum().item<double>(), nll.numel()};
  });
  return mean_nll(losses);
}

std::string task_protocol_hash(const TaskData& data, const EvalConfig& config) {
  const DataConfig& d = data.config();
  Json questions = Json::array();
  for (const std::int64_t length : *d.test_lengths) {
    for (const double depth : d.depths.value_or(std::vector<double>{0})) {
      std::string text;
      for (const Example& example : data.examples(config.split, length, depth))
        text += example.prompt + "=" + example.answer + "\n";
      questions.push_back(sha256(text));
    }
  }
  const Json what = {{"task", Codec<TaskConfig>::write(*d.task)},
                     {"train_lengths", *d.train_lengths},
                     {"split", config.split},
                     {"test_lengths", *d.test_lengths},
                     {"questions", questions}};
  return sha256(dump_json_line(what)).substr(0, 16);
}

}  // namespace posenc
