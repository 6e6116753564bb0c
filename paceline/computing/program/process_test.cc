#include "paceline/computing/program/process.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "paceline/base/testing/answered_call.h"

namespace paceline::program {
namespace {

using std::chrono::seconds;

absl::Status goes_on() { return absl::OkStatus(); }

// Each of these is seen, and in time: a line, an end by itself, an end while this process waits for a line.
bool sees_a_program_and_its_end() {
  const auto started = [](const std::string& script) {
    auto process = Process::start({{"bash", "-c", script}, ""});
    if (process.ok()) process->set_patience(std::chrono::milliseconds(0));
    return process;
  };
  auto process = started("echo hello >&$PACELINE_PROGRAM_FD; sleep 300");
  if (!process.ok()) return false;
  const auto line = process->receive(goes_on);
  if (!line.ok() || *line != "hello" || process->ended_within(std::chrono::milliseconds(20))) return false;
  process = started("exit 3");
  if (!process.ok() || !process->ended_within(seconds(30)) || process->how_it_ended() != "exit status 3")
    return false;
  // Another process has the socket too, so that its end does not tell.
  process = started("sleep 300 & exit 4");
  return process.ok() && absl::IsUnavailable(process->receive(goes_on).status()) &&
         process->how_it_ended() == "exit status 4";
}

int in_child(const std::function<int()>& act) {
  const pid_t child = fork();
  if (child == 0) _exit(act());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Process, SeesAProgramAndItsEnd) { EXPECT_TRUE(sees_a_program_and_its_end()); }

// getpass(), git and ssh ask there. In a group in the background that would stop the program.
TEST(Process, HasNoTerminal) {
  const int status = in_child([] {
    setsid();
    // The first terminal that a session opens is its own.
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return 2;
    if (open(ptsname(terminal), O_RDWR) < 0 || open("/dev/tty", O_RDWR) < 0) return 3;
    auto process = Process::start({{"bash", "-c", ": </dev/tty && exit 5; exit 6"}, ""});
    return process.ok() && process->ended_within(seconds(30)) && process->how_it_ended() == "exit status 6"
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
}

// Linux has them from 5.3 on, and some containers forbid them.
TEST(Process, SeesAProgramAndItsEndWithoutDescriptorsOfProcesses) {
  constexpr int kNoFilter = 77;
  const int status = in_child([] {
    if (!testing::answer_call(SYS_pidfd_open, ENOSYS)) return kNoFilter;
    if (syscall(SYS_pidfd_open, getpid(), 0) >= 0) return 2;
    return sees_a_program_and_its_end() ? 0 : 1;
  });
  if (status == kNoFilter) GTEST_SKIP() << "no filter for system calls can be had here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace paceline::program
