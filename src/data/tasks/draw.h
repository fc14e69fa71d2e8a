#pragma once
// What several tasks draw.

#include <cstdint>
#include <string>
#include <vector>

#include "core/rng.h"

namespace posenc {

inline constexpr const char* kDigits = "0123456789";
inline constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
inline constexpr std::int64_t kTwoLetterNames = 26 * 26;

/// One of them, each as likely.
char draw_char(const std::string& from, Rng& rng);
/// `count` of them, independent.
std::string draw_string(const std::string& from, std::int64_t count, Rng& rng);
/// `count` different pairs of small letters; at most kTwoLetterNames of them.
std::vector<std::string> draw_names(std::int64_t count, Rng& rng);

/// "length 3 is less than 7, the shortest there is", or "" from `shortest` on.
std::string at_least_misfit(std::int64_t length, std::int64_t shortest);
/// The same at the other end, with what sets the limit.
std::string at_most_misfit(std::int64_t length, std::int64_t longest, const std::string& why);

}  // namespace posenc
