#pragma once
// Progress on stderr: a bar that redraws itself when stderr is a terminal, else one plain line every ten seconds, so that a log
// of CI or Slurm stays short and free of control characters.

#include <chrono>
#include <string>

namespace posenc {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// `done` in [0, 1]; `detail` such as "loss 1.92".
  void update(double done, const std::string& detail);
  /// Removes the bar, so that other output can follow.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool terminal_, drawn_ = false;
  Clock::time_point started_ = Clock::now(), shown_;
};

}  // namespace posenc
