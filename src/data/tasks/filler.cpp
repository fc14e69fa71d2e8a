#include "data/tasks/filler.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"

namespace posenc {
namespace {

constexpr std::array kThings = {"the grass",     "the sky",      "the sun",    "a river",
                                "the old house", "an open door", "some bread", "the road"};
constexpr std::array kStates = {"is green",       "is blue",        "lies there", "goes on",
                                "was here again", "comes and goes", "will do",    "is far away"};

template <class Words>
std::string pick(const Words& words, Rng& rng) {
  return words[rng.below(words.size())];
}

}  // namespace

std::string draw_filler(std::int64_t size, Rng& rng) {
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < size) text += pick(kThings, rng) + " " + pick(kStates, rng) + ". ";
  return text.substr(0, static_cast<std::size_t>(size));
}

std::string hide_in_filler(const std::vector<std::pair<double, std::string>>& texts, std::int64_t size, Rng& rng) {
  std::int64_t room = size;
  for (const auto& [place, text] : texts) room -= static_cast<std::int64_t>(text.size());
  POSENC_CHECK(room >= 0, "no room for what is to be hidden");
  std::string hidden = draw_filler(room, rng);
  std::vector<std::pair<double, std::string>> from_the_end = texts;
  std::ranges::reverse(from_the_end);
  std::ranges::stable_sort(from_the_end, std::ranges::greater{}, &std::pair<double, std::string>::first);
  for (const auto& [place, text] : from_the_end)
    hidden.insert(static_cast<std::size_t>(std::llround(place * static_cast<double>(room))), text);
  return hidden;
}

}  // namespace posenc
