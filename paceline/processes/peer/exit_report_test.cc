// A process's report of its end reaches its starter; a process that reports nothing ends as kUnsaid.
#include "paceline/processes/peer/exit_report.h"

#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace paceline::peer {
namespace {

// The report of a child that runs `body`.
ExitReport end_of(const std::function<void()>& body) {
  auto pipe = ExitPipe::open().value();
  std::string variable = ExitPipe::environment(pipe.child_end());
  const pid_t pid = fork();
  if (pid == 0) {
    putenv(variable.data());
    take_exit_descriptor();
    body();
    _exit(0);
  }
  pipe.close_child_end();
  waitpid(pid, nullptr, 0);
  return pipe.read();
}

TEST(ExitReason, IsSaidInTheStatus) {
  EXPECT_EQ(exit_reason_of(absl::OkStatus()), ExitReason::kDone);
  EXPECT_EQ(exit_reason_of(absl::InternalError("x")), ExitReason::kOwnError);
  const absl::Status lost = with_exit_reason(absl::UnavailableError("gone"), ExitReason::kCoordinatorLost);
  EXPECT_EQ(exit_reason_of(lost), ExitReason::kCoordinatorLost);
  EXPECT_EQ(lost.message(), "gone");
}

TEST(ExitReason, ComesToWhoeverStartedTheProcess) {
  const ExitReport taken = end_of(
      [] { report_exit(with_exit_reason(absl::AbortedError("w0 is here"), ExitReason::kPlaceTaken)); });
  EXPECT_EQ(taken.reason, ExitReason::kPlaceTaken);
  EXPECT_EQ(taken.message, "w0 is here");
  EXPECT_EQ(end_of([] { report_exit(absl::OkStatus()); }).reason, ExitReason::kDone);
  const ExitReport memory = end_of([] { report_own_error_at_once("out of memory"); });
  EXPECT_EQ(memory.reason, ExitReason::kOwnError);
  EXPECT_EQ(memory.message, "out of memory");
}

TEST(ExitReason, IsUnsaidIfTheProcessReportsNone) {
  EXPECT_EQ(end_of([] {}).reason, ExitReason::kUnsaid);
  EXPECT_EQ(end_of([] { abort(); }).reason, ExitReason::kUnsaid);
}

TEST(ExitReason, ALongMessageIsCut) {
  const ExitReport ended = end_of([] { report_exit(absl::InternalError(std::string(1 << 20, 'x'))); });
  EXPECT_EQ(ended.reason, ExitReason::kOwnError);
  EXPECT_GT(ended.message.size(), 1000u);
  EXPECT_LE(ended.message.size(), static_cast<std::size_t>(PIPE_BUF));
}

// A program that a worker starts may run for long after the worker.
TEST(ExitReason, NobodyElseHasTheDescriptor) {
  const ExitReport ended = end_of([] {
    if (system("test -z \"$PACELINE_EXIT_REPORT_FD\"") == 0) report_exit(absl::OkStatus());
  });
  EXPECT_EQ(ended.reason, ExitReason::kDone);
}

}  // namespace
}  // namespace paceline::peer
