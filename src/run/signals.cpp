#include "run/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace posenc {
namespace {

std::atomic<int> stop_signals = 0;
constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGUSR1};

void mask_stop_signals(int how) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  pthread_sigmask(how, &set, nullptr);
}

void on_stop(int signal) {
  if (stop_signals.fetch_add(1) > 0) _exit(signal == SIGINT ? 130 : 143);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_stop;
  for (const int signal : kStopSignals) sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  mask_stop_signals(SIG_UNBLOCK);
}

void hold_stop_signals() { mask_stop_signals(SIG_BLOCK); }

bool stop_requested() { return stop_signals.load() > 0; }

}  // namespace posenc
