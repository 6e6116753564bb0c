#include "paceline/launch/stop_signals.h"

#include <csignal>

namespace paceline::launch {

namespace {

volatile std::sig_atomic_t count = 0;
volatile std::sig_atomic_t last = 0;

void on_signal(int number) {
  count = count + 1;
  last = number;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // Of a terminal that is closed. nohup has it ignored.
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int stop_signals() { return count; }
StopCause cause_of_stop() { return last == SIGTERM ? StopCause::kShutDown : StopCause::kInterrupted; }
int exit_of_stop() { return 128 + last; }

}  // namespace paceline::launch
