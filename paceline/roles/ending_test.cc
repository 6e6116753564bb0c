// What a process says of its end comes to whoever started it; and what it does not say is no lie.
#include "paceline/roles/ending.h"

#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace paceline::roles {
namespace {

// Of a child that does this.
SaidEnding end_of(const std::function<void()>& body) {
  auto pipe = EndingPipe::open().value();
  std::string variable = pipe.environment();
  const pid_t pid = fork();
  if (pid == 0) {
    putenv(variable.data());
    take_ending_descriptor();
    body();
    _exit(0);
  }
  pipe.close_child_end();
  waitpid(pid, nullptr, 0);
  return pipe.read();
}

TEST(Ending, IsSaidInTheStatus) {
  EXPECT_EQ(ending_of(absl::OkStatus()), Ending::kDone);
  EXPECT_EQ(ending_of(absl::InternalError("x")), Ending::kOwnError);
  const absl::Status lost = with_ending(absl::UnavailableError("gone"), Ending::kCoordinatorLost);
  EXPECT_EQ(ending_of(lost), Ending::kCoordinatorLost);
  EXPECT_EQ(lost.message(), "gone");
}

TEST(Ending, ComesToWhoeverStartedTheProcess) {
  const SaidEnding taken = end_of([] { tell_ending(with_ending(absl::AbortedError("w0 is here"), Ending::kPlaceTaken)); });
  EXPECT_EQ(taken.ending, Ending::kPlaceTaken);
  EXPECT_EQ(taken.message, "w0 is here");
  EXPECT_EQ(end_of([] { tell_ending(absl::OkStatus()); }).ending, Ending::kDone);
  const SaidEnding memory = end_of([] { tell_own_error_at_once("out of memory"); });
  EXPECT_EQ(memory.ending, Ending::kOwnError);
  EXPECT_EQ(memory.message, "out of memory");
}

TEST(Ending, ThatNobodySaidIsUnsaid) {
  EXPECT_EQ(end_of([] {}).ending, Ending::kUnsaid);
  EXPECT_EQ(end_of([] { abort(); }).ending, Ending::kUnsaid);
}

TEST(Ending, ALongMessageIsCut) {
  const SaidEnding ended = end_of([] { tell_ending(absl::InternalError(std::string(1 << 20, 'x'))); });
  EXPECT_EQ(ended.ending, Ending::kOwnError);
  EXPECT_GT(ended.message.size(), 1000u);
  EXPECT_LE(ended.message.size(), static_cast<std::size_t>(PIPE_BUF));
}

// A program that a worker starts may run on for long after it.
TEST(Ending, NobodyElseHasTheDescriptor) {
  const SaidEnding ended = end_of([] {
    if (system("test -z \"$PACELINE_ENDING_FD\"") == 0) tell_ending(absl::OkStatus());
  });
  EXPECT_EQ(ended.ending, Ending::kDone);
}

}  // namespace
}  // namespace paceline::roles
