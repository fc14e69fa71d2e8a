#include "run/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace posenc {
namespace {

std::atomic<int> stop_signals = 0;

void on_stop(int signal) {
  if (stop_signals.fetch_add(1) > 0) _exit(signal == SIGINT ? 130 : 143);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_stop;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool stop_requested() { return stop_signals.load() > 0; }

}  // namespace posenc
