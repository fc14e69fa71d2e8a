#include "core/error.h"
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {

#define POSENC_TASK(name) TaskInfo name##_task();
#include "data/tasks/list.def"
#undef POSENC_TASK

const std::vector<TaskInfo>& tasks() {
  static const std::vector<TaskInfo> all = {
#define POSENC_TASK(name) name##_task(),
#include "data/tasks/list.def"
#undef POSENC_TASK
  };
  return all;
}

std::string Task::misfit(std::int64_t length) const { return at_least_misfit(length, 1); }

std::string TaskConfig::label() const { return registered_label(tasks(), *this); }

std::unique_ptr<Task> make_task(const TaskConfig& config) {
  const TaskInfo* info = find_registered(tasks(), config.name);
  POSENC_CHECK(info, "no task is called " + config.name);
  return info->make(config.parameters);
}

bool Codec<TaskConfig>::read(const Json& j, TaskConfig& out, const FieldRule&, const Reader& reader) {
  return read_registered(tasks(), "task", "task", j, out, reader);
}

Json Codec<TaskConfig>::write(const TaskConfig& value) { return write_registered("task", value); }

Json Codec<TaskConfig>::describe(const FieldRule&) { return describe_registered(tasks(), "task"); }

}  // namespace posenc
