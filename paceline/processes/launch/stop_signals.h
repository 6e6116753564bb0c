// Makes Ctrl-C and SIGTERM requests to stop, instead of an end. This is the only process-wide state, because
// signals are process-wide.
#pragma once

#include <array>
#include <csignal>

#include "paceline/base/stop_cause.h"

namespace paceline::launch {

// From now on SIGUSR1 and SIGUSR2 are only counted. Clusters send these signals as a warning that they will stop a job's
// processes. A command calls this first, because the signals would end it while it asks a program or reads data.
void catch_warning_signals();
// For the time between a process and the program that it becomes: exec() keeps no handler, but it keeps this.
void ignore_warning_signals();
// From now on Ctrl-C, SIGTERM and SIGHUP are only counted too, and a closed output pipe does not end the process: Ctrl-C on
// `paceline train | tee log` stops tee as well. For a command that stops cleanly itself.
void catch_stop_signals();

// Does that until it goes, for a command that may not take long afterwards: then the signals do again what they did before.
class StopSignalsCaught {
 public:
  StopSignalsCaught();
  StopSignalsCaught(const StopSignalsCaught&) = delete;
  StopSignalsCaught& operator=(const StopSignalsCaught&) = delete;
  ~StopSignalsCaught();

 private:
  std::array<struct sigaction, 6> before_{};
};

// The number of requests since the process began, counted by StopWishes: one that comes while a run loads its
// data counts too.
int stop_signals();
// The number of times that SIGUSR1 or SIGUSR2 came and was not answered, and the name of the last one.
int new_warnings();
void answer_warnings(int count);
const char* name_of_warning();
// Counts the last warning as a request to stop, if there is none yet: a second warning does not stop a run at once.
void take_warning_as_stop();
// The cause of the last request: init systems and clusters send SIGTERM and warnings, and people do not.
StopCause cause_of_stop();
// The exit status of a command that such a signal stopped: 128 + its number, like a shell's.
int exit_of_stop();

}  // namespace paceline::launch
