#include "core/error.h"

namespace posenc {
namespace {

std::string listing(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    for (const std::string* part : {&problem.where, &problem.pointer}) {
      if (!part->empty()) text += *part + ": ";
    }
    text += problem.rule;
  }
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<Problem> problems)
    : Error(ExitCode::kConfig, listing(problems)), problems_(std::move(problems)) {}

ConfigError::ConfigError(const std::string& rule) : ConfigError(std::vector<Problem>{{"", "", rule}}) {}

void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  throw std::logic_error("bug in posenc (please report it): " + message + " [" + expression + " at " + file + ":" +
                         std::to_string(line) + "]");
}

}  // namespace posenc
