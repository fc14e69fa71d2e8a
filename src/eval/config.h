#pragma once
// The evaluation section of an experiment. No torch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/schema.h"
#include "extend/extension.h"

namespace posenc {

struct EvalConfig {
  std::vector<std::int64_t> lengths = {128, 256, 512, 1024, 2048};
  std::vector<std::string> protocols = {"fixed_target", "nonoverlapping"};
  std::string split = "test";
  std::int64_t windows = 128;           ///< M of fixed_target
  std::optional<std::int64_t> targets;  ///< K of fixed_target; null: half the shorter of training length and shortest length
  std::optional<std::int64_t> stride;   ///< of sliding; null: half the window
  std::int64_t tokens = 65536;          ///< stream scored by nonoverlapping and sliding; 0: the whole split
  std::int64_t by_position = 32;        ///< windows of the by-position table; 0: none
  std::string state = "reset";          ///< carry: nonoverlapping windows of a recurrent model go on from each other
  std::vector<ExtensionConfig> extensions;

  void resolve(std::int64_t train_length);
};

template <>
const Schema<EvalConfig>& schema<EvalConfig>();

}  // namespace posenc
