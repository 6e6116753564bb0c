#include "paceline/transport/ipc/passed_descriptors.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace paceline::ipc {
namespace {

struct Pair {
  explicit Pair(int type) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    one = FileDescriptor(ends[0]);
    other = FileDescriptor(ends[1]);
  }
  FileDescriptor one, other;
};

TEST(PassedDescriptors, AreTheSameFilesAndTheTextComesWithThem) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kMostPassed}) {
      Pair pair(type);
      int pipe[2];
      ASSERT_EQ(::pipe(pipe), 0);
      const FileDescriptor read(pipe[0]), write(pipe[1]);
      const std::vector<int> all(count, pipe[1]);
      ASSERT_TRUE(send_with_descriptors(pair.one.get(), "hello", all));
      const auto message = receive_with_descriptors(pair.other.get(), 100);
      ASSERT_TRUE(message);
      EXPECT_EQ(message->text, "hello");
      ASSERT_EQ(message->descriptors.size(), count);
      for (const FileDescriptor& passed : message->descriptors) {
        EXPECT_NE(passed.get(), pipe[1]);
        ASSERT_EQ(::write(passed.get(), "x", 1), 1);
        char got = 0;
        EXPECT_EQ(::read(pipe[0], &got, 1), 1);
      }
    }
  }
}

TEST(PassedDescriptors, NothingComesFromAnEndThatIsClosed) {
  Pair pair(SOCK_STREAM);
  pair.one = FileDescriptor();
  EXPECT_FALSE(receive_with_descriptors(pair.other.get(), 100));
  EXPECT_FALSE(send_with_descriptors(pair.other.get(), "hello", {}));
}

TEST(PassedDescriptors, AreClosedIfNobodyKeepsThem) {
  Pair pair(SOCK_STREAM);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const FileDescriptor read(pipe[0]);
  ASSERT_TRUE(send_with_descriptors(pair.one.get(), "hello", std::array{pipe[1]}));
  ::close(pipe[1]);
  EXPECT_TRUE(receive_with_descriptors(pair.other.get(), 100));
  char got = 0;
  EXPECT_EQ(::read(pipe[0], &got, 1), 0) << "the pipe has ended";
}

}  // namespace
}  // namespace paceline::ipc
