#pragma once
// Stop requests. The first SIGINT, SIGTERM or SIGUSR1 asks: loops look at stop_requested() between steps and windows, save, and
// leave with exit 75. The second ends the process at once with 130 or 143. SIGPIPE and SIGXFSZ are ignored, so that a closed pipe
// or a full disk is an error value, not a death. A stop that comes while one program hands over to the next must not be lost:
// hold_stop_signals() before exec keeps it pending until the new program calls install_signal_handlers().

namespace posenc {

void install_signal_handlers();
void hold_stop_signals();
bool stop_requested();

}  // namespace posenc
