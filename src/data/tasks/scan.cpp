// Commands to actions, split by length: the grammar of SCAN (Lake and Baroni 2018, arXiv:1711.00350), whose 20910 commands lead to
// 1 to 48 actions. A word is one character:
//   walk w  look l  run r  jump j  turn t  left <  right >  opposite o  around a  twice 2  thrice 3  and &  after @
//   actions: W L R J, and [ ] for a turn to the left or right
// Lengths are drawn first here, then one of the commands of that length; SCAN has each command once.
#include <map>

#include "data/tasks/task.h"

namespace posenc {
namespace {

struct ScanParameters {};

using Commands = std::vector<Example>;

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

/// "jump", "turn left", "jump opposite left", "turn around right", …
Commands movements() {
  Commands all;
  for (const char* verb : {"wW", "lL", "rR", "jJ", "t"}) {
    const std::string word(1, verb[0]), action(verb + 1);
    if (!action.empty()) all.push_back({word, action});
    for (const char* direction : {"<[", ">]"}) {
      const std::string side(1, direction[0]), turn(1, direction[1]);
      all.push_back({word + side, turn + action});
      all.push_back({word + "o" + side, turn + turn + action});
      all.push_back({word + "a" + side, repeat(turn + action, 4)});
    }
  }
  return all;
}

/// A movement, twice, thrice.
Commands clauses() {
  Commands all;
  for (const Example& one : movements()) {
    all.push_back(one);
    all.push_back({one.prompt + "2", repeat(one.answer, 2)});
    all.push_back({one.prompt + "3", repeat(one.answer, 3)});
  }
  return all;
}

/// Every command by its number of actions.
std::map<std::int64_t, Commands> commands_by_length() {
  std::map<std::int64_t, Commands> all;
  const auto add = [&](Example command) {
    const auto length = static_cast<std::int64_t>(command.answer.size());
    all[length].push_back(std::move(command));
  };
  const Commands parts = clauses();
  for (const Example& first : parts) {
    add(first);
    for (const Example& second : parts) {
      add({first.prompt + "&" + second.prompt, first.answer + second.answer});
      add({first.prompt + "@" + second.prompt, second.answer + first.answer});
    }
  }
  return all;
}

const std::map<std::int64_t, Commands>& all_commands() {
  static const std::map<std::int64_t, Commands> all = commands_by_length();
  return all;
}

class Scan : public Task {
 public:
  explicit Scan(const ScanParameters&) {}
  std::string alphabet() const override { return "wlrjt<>oa23&@WLRJ[]"; }
  std::string misfit(std::int64_t length) const override {
    return all_commands().contains(length) ? "" : "no command leads to " + std::to_string(length) + " actions";
  }
  std::int64_t longest(std::int64_t length) const override { return kLongestCommand + length; }
  Example draw(std::int64_t length, double, Rng& rng) const override {
    const Commands& commands = all_commands().at(length);
    return commands[rng.below(commands.size())];
  }

 private:
  static constexpr std::int64_t kLongestCommand = 9;  ///< "jump around left twice and jump around right thrice"
};

}  // namespace

template <>
const Schema<ScanParameters>& schema<ScanParameters>() {
  static const Schema<ScanParameters> table("no parameters");
  return table;
}

TaskInfo scan_task() {
  TaskInfo info;
  info.name = "scan";
  info.title = "commands to actions (SCAN)";
  info.paper = "Lake and Baroni 2018, arXiv:1711.00350";
  info.length = "actions";
  return task_info<ScanParameters, Scan>(std::move(info));
}

}  // namespace posenc
