// Tests how often a server tries to get memory of a card that is full.
#include "paceline/processes/server_process/memory_comes_back.h"

#include <absl/status/statusor.h>
#include <gtest/gtest.h>

namespace paceline::server_process {
namespace {

using namespace std::chrono_literals;

struct Tries {
  // The error of each try but the last one; the last one is good.
  absl::StatusOr<int> take() {
    if (++count <= failures) return failure;
    return count;
  }
  absl::Status failure = absl::ResourceExhaustedError("the card is full");
  int failures = 0;
  int count = 0;
};

TEST(MemoryComesBack, IsTakenOnceItIsThere) {
  Tries tries{.failures = 3};
  EXPECT_EQ(*once_memory_is_back([&] { return tries.take(); }, {.pause = 1ms, .longest = 1h}), 4);
}

TEST(MemoryComesBack, AnotherErrorIsAtOnceTheResult) {
  Tries tries{.failure = absl::InvalidArgumentError("of another model"), .failures = 3};
  EXPECT_TRUE(absl::IsInvalidArgument(
      once_memory_is_back([&] { return tries.take(); }, {.pause = 1ms, .longest = 1h}).status()));
  EXPECT_EQ(tries.count, 1);
}

TEST(MemoryComesBack, IsNotWaitedForForEver) {
  Tries tries{.failures = 1'000'000};
  EXPECT_TRUE(absl::IsResourceExhausted(
      once_memory_is_back([&] { return tries.take(); }, {.pause = 1ms, .longest = 20ms}).status()));
  EXPECT_GE(tries.count, 2);
}

}  // namespace
}  // namespace paceline::server_process
