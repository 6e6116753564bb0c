// Ctrl-C and SIGTERM as something to ask for, instead of an end. The one piece of process-wide state, because
// signals are.
#pragma once

#include "paceline/base/stop_cause.h"

namespace paceline::launch {

// From now on these signals only count, and output that nobody reads any more ends nothing: Ctrl-C on
// `paceline train | tee log` stops tee as well. To be called by a command that stops cleanly itself.
void catch_stop_signals();

// How often one of them came since the process began, as StopWishes counts: one that comes while a run loads
// its data counts too.
int stop_signals();
// What the last one means: an init system sends SIGTERM, and people do not.
StopCause cause_of_stop();
// The exit status of a command that one of them stopped: 128 + its number, as shells count.
int exit_of_stop();

}  // namespace paceline::launch
