#pragma once
// Algorithmic tasks: questions with one right answer, made at any length, so that a model trained on short ones can be asked long
// ones. A task is one file, src/data/tasks/<name>.cpp, and one line in list.def. No torch.
//
//   auto task = make_task({"copy", parameters});
//   Rng rng(7);
//   Example e = task->draw(5, 0, rng);    // prompt "kfyad", answer "kfyad"
//
// One character is one token. What stands around prompt and answer (start, separator, end, padding) is the business of
// task_data.h, as are training and test: a task only draws.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/registered.h"
#include "core/rng.h"
#include "core/schema.h"

namespace posenc {

struct Example {
  std::string prompt, answer;
  /// What must not stand in two parts of the data: a piece of text, say, that several prompts are cut from. Empty: the prompt.
  std::string source = "";
};

class Task {
 public:
  virtual ~Task() = default;
  /// The characters of its prompts and answers, each once.
  virtual std::string alphabet() const = 0;
  /// Why it has no example of this length, naming the nearest rule; "" when it has.
  virtual std::string misfit(std::int64_t length) const;
  /// The most characters that prompt and answer of this length have together.
  virtual std::int64_t longest(std::int64_t length) const = 0;
  /// Reads what it draws from, where that is a file. ConfigError or DataError when it is not there or not as it should be.
  virtual void prepare() const {}
  /// Whether what is asked for can stand anywhere in the prompt.
  virtual bool has_depth() const { return false; }
  /// An example of a length without misfit. `depth` in [0, 1] is where, between start and end of the prompt, stands what is asked
  /// for; only with has_depth(). The prompt tells the length: no two lengths share one.
  virtual Example draw(std::int64_t length, double depth, Rng& rng) const = 0;
};

/// A task as a config names it: "copy", or {"task": "copy", "form": "same"}.
struct TaskConfig : Registered {
  std::string label() const;
};

struct TaskInfo : RegisteredInfo {
  std::string length;                                      ///< what its lengths count: "digits of each number"
  std::function<std::unique_ptr<Task>(const Json&)> make;  ///< filled in by task_info
};

/// Completes `info` from the table of the task's parameter struct and the class that is made from it.
template <class Parameters, class Made>
TaskInfo task_info(TaskInfo info) {
  take_parameters<Parameters>(info);
  info.make = [](const Json& resolved) { return std::make_unique<Made>(from_json<Parameters>(resolved)); };
  return info;
}

/// Every registered task, in the order of list.def.
const std::vector<TaskInfo>& tasks();

std::unique_ptr<Task> make_task(const TaskConfig& config);

template <>
struct Codec<TaskConfig> {
  static bool read(const Json&, TaskConfig&, const FieldRule&, const Reader&);
  static Json write(const TaskConfig&);
  static Json describe(const FieldRule&);
  static std::string type_name() { return "task"; }
};

}  // namespace posenc
