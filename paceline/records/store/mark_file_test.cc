#include "paceline/records/store/mark_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

using ::testing::HasSubstr;

TEST(MarkFile, GoesWithItsObject) {
  const TestDirectory directory;
  {
    const auto mark = MarkFile::leave(directory / "mark");
    ASSERT_TRUE(mark.ok()) << mark.status();
    EXPECT_EQ(read_file(mark->file(), kLongestMark).value(), mark->text());
  }
  EXPECT_EQ(directory.count(), 0);
}

TEST(MarkFile, TheMarkOfAProcessThatWasKilledIsReplaced) {
  const TestDirectory directory;
  put_bytes(directory / "mark", "what was there before, and longer than any mark that is left there now");
  const auto mark = MarkFile::leave(directory / "mark");
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_TRUE(mark->stands());
}

TEST(MarkFile, AnotherOneInItsPlaceIsLeftAlone) {
  const TestDirectory directory;
  auto first = MarkFile::leave(directory / "mark");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->stands());
  const auto second = MarkFile::leave(directory / "mark");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(first->stands());
  first = absl::CancelledError();
  EXPECT_TRUE(second->stands());
}

TEST(MarkFile, StaysWhereThatIsAskedFor) {
  const TestDirectory directory;
  {
    auto mark = MarkFile::leave(directory / "mark");
    ASSERT_TRUE(mark.ok()) << mark.status();
    mark->keep();
  }
  EXPECT_EQ(directory.count(), 1);
}

TEST(MarkFile, NamesAPlaceThatCannotBeWritten) {
  const auto status = MarkFile::leave("/proc/mark").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/mark"));
}

}  // namespace
}  // namespace paceline::store
