// Makes Ctrl-C and SIGTERM requests to stop, instead of an end. This is the only process-wide state, because
// signals are process-wide.
#pragma once

#include "paceline/base/stop_cause.h"

namespace paceline::launch {

// From now on these signals, and those that warn, are only counted, and a closed output pipe does not end the process: Ctrl-C on
// `paceline train | tee log` stops tee as well. For a command that stops cleanly itself.
void catch_stop_signals();

// The number of requests since the process began, counted by StopWishes: one that comes while a run loads its
// data counts too.
int stop_signals();
// The number of times that SIGUSR1 or SIGUSR2 came since then, and the name of the last one. Clusters warn with these
// signals that they will stop the processes of a job.
int warning_signals();
const char* name_of_warning();
// The cause of the last one: an init system sends SIGTERM, and people do not.
StopCause cause_of_stop();
// The exit status of a command that such a signal stopped: 128 + its number, like a shell's.
int exit_of_stop();

}  // namespace paceline::launch
