#include "data/tasks/draw.h"

#include "core/error.h"

namespace posenc {

char draw_char(const std::string& from, Rng& rng) { return from[rng.below(from.size())]; }

std::string draw_string(const std::string& from, std::int64_t count, Rng& rng) {
  std::string drawn;
  for (std::int64_t i = 0; i < count; ++i) drawn += draw_char(from, rng);
  return drawn;
}

std::vector<std::string> draw_names(std::int64_t count, Rng& rng) {
  POSENC_CHECK(count <= kTwoLetterNames, "there are not as many names");
  const Permutation order(kTwoLetterNames, rng.next());
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t drawn = order(static_cast<std::uint64_t>(i));
    names.push_back({kLetters[drawn / 26], kLetters[drawn % 26]});
  }
  return names;
}

std::string at_least_misfit(std::int64_t length, std::int64_t shortest) {
  if (length >= shortest) return "";
  return "length " + std::to_string(length) + " is less than " + std::to_string(shortest) + ", the shortest there is";
}

std::string at_most_misfit(std::int64_t length, std::int64_t longest, const std::string& why) {
  if (length <= longest) return "";
  return "length " + std::to_string(length) + " is more than " + std::to_string(longest) + ": " + why;
}

}  // namespace posenc
