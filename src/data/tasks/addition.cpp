// Addition of two numbers with the same number of digits. With index hints (Zhou et al. 2023, arXiv:2310.16028) a letter stands
// before each digit, the same for digits of the same weight; the letters follow each other from a random one on, so that training
// on few digits meets them all.
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

constexpr std::int64_t kHints = 52;

struct AdditionParameters {
  bool index_hints = false, reversed = false;
};

class Addition : public Task {
 public:
  explicit Addition(const AdditionParameters& p) : parameters_(p) {}
  std::string alphabet() const override { return std::string(kDigits) + '+' + (parameters_.index_hints ? kLetters : ""); }

  std::string misfit(std::int64_t length) const override {
    const std::string most = at_most_misfit(length, kHints - 1, "there are " + std::to_string(kHints) + " index hints");
    return parameters_.index_hints && !most.empty() ? most : Task::misfit(length);
  }

  std::int64_t longest(std::int64_t length) const override {
    return 3 * (length + 1) * (parameters_.index_hints ? 2 : 1) + 1 - (parameters_.index_hints ? 0 : 2);
  }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const std::string a = draw_number(length, rng), b = draw_number(length, rng), total = sum(a, b);
    if (!parameters_.index_hints) return {a + "+" + b, ordered(total)};
    const std::uint64_t first = rng.below(static_cast<std::uint64_t>(kHints - length));
    const std::string letters = std::string(kLetters).substr(first, total.size());
    return {pair_up(letters, "0" + a) + "+" + pair_up(letters, "0" + b), pair_up(ordered(letters), ordered(total))};
  }

 private:
  static std::string draw_number(std::int64_t length, Rng& rng) {
    std::string digits = draw_string(kDigits, length, rng);
    if (length > 1) digits[0] = static_cast<char>('1' + rng.below(9));
    return digits;
  }

  /// One digit more than the operands, a leading 0 where there is no carry.
  static std::string sum(const std::string& a, const std::string& b) {
    std::string total(a.size() + 1, '0');
    int carry = 0;
    for (std::size_t i = a.size(); i > 0; --i) {
      const int column = a[i - 1] - '0' + (b[i - 1] - '0') + carry;
      total[i] = static_cast<char>('0' + column % 10);
      carry = column / 10;
    }
    total[0] = static_cast<char>('0' + carry);
    return total;
  }

  /// An answer in the order asked for.
  std::string ordered(const std::string& digits) const {
    return parameters_.reversed ? std::string(digits.rbegin(), digits.rend()) : digits;
  }

  /// A letter before each digit.
  static std::string pair_up(const std::string& letters, const std::string& digits) {
    std::string pairs;
    for (std::size_t i = 0; i < digits.size(); ++i) pairs += {letters[i], digits[i]};
    return pairs;
  }

  AdditionParameters parameters_;
};

}  // namespace

template <>
const Schema<AdditionParameters>& schema<AdditionParameters>() {
  static const Schema<AdditionParameters> table =
      Schema<AdditionParameters>("addition")
          .field("index_hints", &AdditionParameters::index_hints,
                 "a letter before each digit, the same for digits of the same weight; numbers then have a leading 0")
          .field("reversed", &AdditionParameters::reversed, "the answer begins with its last digit");
  return table;
}

TaskInfo addition_task() {
  TaskInfo info;
  info.name = "addition";
  info.aliases = {"add"};
  info.title = "the sum of two numbers";
  info.paper = "Kazemnejad et al. 2023, arXiv:2305.19466; Zhou et al. 2023, arXiv:2310.16028 (index hints)";
  info.length = "digits of each number";
  return task_info<AdditionParameters, Addition>(std::move(info));
}

}  // namespace posenc
