#include "paceline/processes/launch/raised_priority.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

// Its threads and those of its children have priorities of their own.
TEST(RaisedPriority, IsThatOfAllThreadsOfAProcessAndItsChildren) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const auto tell = [&](pid_t thread) { return write(pipes[1], &thread, sizeof thread) == sizeof thread; };
  const pid_t child = fork();
  if (child == 0) {
    setpriority(PRIO_PROCESS, 0, 19);
    std::thread other([&] {
      tell(static_cast<pid_t>(syscall(SYS_gettid)));
      if (fork() == 0) tell(getpid());
      pause();
    });
    tell(getpid());
    other.join();
  }
  pid_t threads[3];
  for (pid_t& thread : threads) {
    ASSERT_EQ(read(pipes[0], &thread, sizeof thread), static_cast<ssize_t>(sizeof thread));
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(thread)), 19);
  }
  raise_priority(child);
  const int own = getpriority(PRIO_PROCESS, 0);
  errno = 0;
  const bool allowed = setpriority(PRIO_PROCESS, static_cast<id_t>(child), own) == 0;
  for (const pid_t thread : threads)
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(thread)), allowed ? own : 19);
  for (const pid_t thread : threads) kill(thread, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const int end : pipes) close(end);
  raise_priority(child);  // a process that has ended
}

}  // namespace
}  // namespace paceline::launch
