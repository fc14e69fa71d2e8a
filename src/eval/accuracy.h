#pragma once
// How often a trained model answers a task rightly, at each length and extension. The answer is fed in and the likeliest token
// looked at where each of its tokens is due: every token is right exactly when greedy decoding would have given the answer. What
// ends the answer, the question and padding are not scored.

#include <string>
#include <vector>

#include "core/results.h"
#include "data/task_data.h"
#include "eval/evaluate.h"

namespace posenc {

/// Right tokens of one answer.
struct AnswerScore {
  std::int64_t right = 0, tokens = 0;
};

/// One Accuracy for each extension, length and depth that the settings and the task's config name. A length that the model cannot
/// represent, or that has no question for the split, is refused with the reason. Random positions are drawn once for each group of
/// examples.
std::vector<Accuracy> evaluate_accuracy(const LanguageModel& model, const TaskData& data, const EvalSettings& settings);

/// The same list without numbers, all with one status and reason.
std::vector<Accuracy> accuracy_without_numbers(const TaskData& data, const EvalConfig& config, const std::string& status,
                                               const std::string& reason);

/// Scores answers in fixed groups on settings.threads threads. `window`: the input positions that positions and extensions are for.
std::vector<AnswerScore> score_answers(const LanguageModel& model, const std::vector<TaskSequence>& sequences,
                                       std::int64_t window, const Extension* extension, const EvalSettings& settings);

/// Mean NLL of what training scores, over `count` examples for validation at lengths of training.
double answer_loss(const LanguageModel& model, const TaskData& data, std::int64_t count, const EvalSettings& settings);

/// Everything that changes a number without being the model: the task, its lengths, and every question that is asked.
std::string task_protocol_hash(const TaskData& data, const EvalConfig& config);

}  // namespace posenc
