// Makes Ctrl-C and SIGTERM requests, instead of an end. This is the one piece of process-wide state, because
// signals are process-wide.
#pragma once

#include "paceline/base/stop_cause.h"

namespace paceline::launch {

// From now on these signals, and those that warn, are only counted, and a closed output pipe does not end the process: Ctrl-C on
// `paceline train | tee log` stops tee as well. For a command that stops cleanly itself.
void catch_stop_signals();

// How often one of them came since the process began, as StopWishes counts: one that comes while a run loads
// its data counts too.
int stop_signals();
// How often SIGUSR1 or SIGUSR2 came since then, by which clusters warn that they will stop the processes of a job, and
// the name of the last one.
int warning_signals();
const char* name_of_warning();
// The meaning of the last one: an init system sends SIGTERM, and people do not.
StopCause cause_of_stop();
// The exit status of a command that one of them stopped: 128 + its number, as shells count.
int exit_of_stop();

}  // namespace paceline::launch
