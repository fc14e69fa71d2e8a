// Passkey retrieval: a number hidden in filler, at any depth. Mohtashami and Jaggi 2023 (arXiv:2305.16300).
#include "data/tasks/draw.h"
#include "data/tasks/filler.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

struct PasskeyParameters {
  std::int64_t digits = 5;
};

class Passkey : public Task {
 public:
  explicit Passkey(const PasskeyParameters& p) : digits_(p.digits) {}
  std::string alphabet() const override { return std::string(kFillerAlphabet) + kDigits + "?"; }
  std::string misfit(std::int64_t length) const override {
    return at_least_misfit(length, static_cast<std::int64_t>(statement("").size() + question().size()) + digits_);
  }
  std::int64_t longest(std::int64_t length) const override { return length + digits_; }
  bool has_depth() const override { return true; }

  Example draw(std::int64_t length, double depth, Rng& rng) const override {
    const std::string key = draw_string(kDigits, digits_, rng);
    const auto text = length - static_cast<std::int64_t>(question().size());
    return {hide_in_filler({{depth, statement(key)}}, text, rng) + question(), key};
  }

 private:
  static std::string statement(const std::string& key) { return "the pass key is " + key + ". "; }
  static std::string question() { return "what is the pass key?"; }

  std::int64_t digits_;
};

}  // namespace

template <>
const Schema<PasskeyParameters>& schema<PasskeyParameters>() {
  static const Schema<PasskeyParameters> table =
      Schema<PasskeyParameters>("passkey").field("digits", &PasskeyParameters::digits, "of the key").range(1, 20);
  return table;
}

TaskInfo passkey_task() {
  TaskInfo info;
  info.name = "passkey";
  info.title = "a number hidden in filler";
  info.paper = "Mohtashami and Jaggi 2023, arXiv:2305.16300";
  info.length = "characters of the prompt";
  return task_info<PasskeyParameters, Passkey>(std::move(info));
}

}  // namespace posenc
