// A lock that another process releases, and whose file it removes.
#include "paceline/records/store/lock_file.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace paceline::store {
namespace {

TEST(LockFile, IsThatOfTheFileAtItsPath) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "lock-file-test";
  std::filesystem::remove(path);
  std::optional<FileDescriptor> before = lock_file(path).value();
  ASSERT_TRUE(before);
  std::optional<FileDescriptor> after;
  std::thread waits([&] { after = lock_file(path, std::chrono::minutes(10)).value(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::filesystem::remove(path);
  before.reset();
  waits.join();
  EXPECT_TRUE(after);
  EXPECT_FALSE(lock_file(path).value()) << "nobody else gets it now";
}

}  // namespace
}  // namespace paceline::store
