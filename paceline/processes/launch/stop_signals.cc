#include "paceline/processes/launch/stop_signals.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "paceline/processes/launch/stop_wishes.h"

namespace paceline::launch {

namespace {

constexpr std::int64_t kSecond_ns = 1'000'000'000;

constexpr std::array kCaught = {SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGHUP, SIGPIPE};

StopWishes wishes;
volatile std::sig_atomic_t last = 0;
volatile std::sig_atomic_t warnings = 0;
volatile std::sig_atomic_t last_warning = 0;
std::atomic<int> answered = 0;

void on_signal(int number) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (wishes.came(static_cast<std::int64_t>(now.tv_sec) * kSecond_ns + now.tv_nsec)) last = number;
}

void on_warning(int number) {
  warnings = warnings + 1;
  last_warning = number;
}

}  // namespace

void catch_warning_signals() {
  struct sigaction action {};
  action.sa_handler = on_warning;
  action.sa_flags = SA_RESTART;  // files are read and programs are waited for meanwhile
  for (const int number : {SIGUSR1, SIGUSR2}) sigaction(number, &action, nullptr);
}

void ignore_warning_signals() {
  for (const int number : {SIGUSR1, SIGUSR2}) std::signal(number, SIG_IGN);
}

void catch_stop_signals() {
  catch_warning_signals();
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, number);
  sigaction(SIGTERM, &action, nullptr);
  // These come from a terminal, or at its end. A script's "&" ignores the first, and nohup the second.
  for (const int number : {SIGINT, SIGHUP}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

StopSignalsCaught::StopSignalsCaught() {
  for (std::size_t i = 0; i < kCaught.size(); ++i) sigaction(kCaught[i], nullptr, &before_[i]);
  catch_stop_signals();
}

StopSignalsCaught::~StopSignalsCaught() {
  for (std::size_t i = 0; i < kCaught.size(); ++i) sigaction(kCaught[i], &before_[i], nullptr);
}

int stop_signals() { return wishes.count(); }
int new_warnings() { return warnings - answered; }
void answer_warnings(int count) { answered += count; }
const char* name_of_warning() { return last_warning == SIGUSR2 ? "SIGUSR2" : "SIGUSR1"; }
void take_warning_as_stop() {
  if (stop_signals() == 0) on_signal(last_warning);
}
StopCause cause_of_stop() {
  return last == SIGINT || last == SIGHUP ? StopCause::kInterrupted : StopCause::kShutDown;
}
int exit_of_stop() { return 128 + last; }

}  // namespace paceline::launch
