#include "run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace posenc {
namespace {

bool redraws() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && std::getenv("CI") == nullptr && term && std::strcmp(term, "dumb") != 0;
}

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(redraws()), shown_(started_) {}

Progress::~Progress() { clear(); }

void Progress::update(double done, const std::string& detail) {
  const auto now = Clock::now();
  if (now - shown_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000))) return;
  shown_ = now;
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  const double left = done > 0 ? elapsed * (1 - done) / done : 0;
  const std::string text = fmt::format("{} {:3.0f}%  {}  {:.0f} s left", what_, done * 100, detail, left);
  if (!terminal_) {
    std::fputs((text + "\n").c_str(),
               stderr);  // fmt::print throws when nobody reads stderr any more, which must not end a training
    return;
  }
  constexpr int kWidth = 24;
  const int full = static_cast<int>(done * kWidth);
  fmt::print(stderr, "\r\033[K[{}{}] {}", std::string(static_cast<std::size_t>(full), '#'),
             std::string(static_cast<std::size_t>(kWidth - full), '.'), text);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace posenc
