#include "paceline/store/folder_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/store/files.h"
#include "paceline/store/test_directory.h"

namespace paceline::store {
namespace {

using testing::HasSubstr;
constexpr std::chrono::milliseconds kAtOnce{0};

TEST(FolderMark, IsFoundWhereItIsAndGoesWithItsObject) {
  const TestDirectory directory;
  {
    const auto mark = FolderMark::leave(directory / "mark");
    ASSERT_TRUE(mark.ok()) << mark.status();
    EXPECT_TRUE(check_shared(mark->file(), mark->text(), "host1", kAtOnce).ok());
    EXPECT_EQ(directory.count(), 1);  // what was tried is gone
  }
  EXPECT_EQ(directory.count(), 0);
}

TEST(FolderMark, AnotherFolderIsNotTakenForIt) {
  const TestDirectory directory;
  const TestDirectory other;
  const auto mark = FolderMark::leave(directory / "mark");
  const auto others = FolderMark::leave(other / "mark");
  ASSERT_TRUE(mark.ok() && others.ok());
  const absl::Status wrong = check_shared(other / "mark", mark->text(), "host1", kAtOnce);
  EXPECT_TRUE(absl::IsFailedPrecondition(wrong));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("the mark of another"));
  const absl::Status none = check_shared(other / "none" / "mark", mark->text(), "host1", kAtOnce);
  EXPECT_TRUE(absl::IsFailedPrecondition(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("on a disk that all hosts share"));
  EXPECT_EQ(other.count(), 1);
}

TEST(FolderMark, TheMarkOfAProcessThatWasKilledIsReplaced) {
  const TestDirectory directory;
  put_bytes(directory / "mark", "what was there before, and longer than any mark that is left there now");
  const auto mark = FolderMark::leave(directory / "mark");
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_TRUE(find_mark(mark->file(), mark->text(), kAtOnce).ok());
}

TEST(FolderMark, AnotherOneInItsPlaceIsLeftAlone) {
  const TestDirectory directory;
  auto first = FolderMark::leave(directory / "mark");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->stands());
  const auto second = FolderMark::leave(directory / "mark");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(first->stands());
  first = absl::CancelledError();
  EXPECT_TRUE(second->stands());
}

TEST(FolderMark, StaysWhereThatIsAskedFor) {
  const TestDirectory directory;
  {
    auto mark = FolderMark::leave(directory / "mark");
    ASSERT_TRUE(mark.ok()) << mark.status();
    mark->stay();
  }
  EXPECT_EQ(directory.count(), 1);
}

TEST(FolderMark, WhereNothingCanBeWrittenIsSaid) {
  const auto status = FolderMark::leave("/proc/mark").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/mark"));
}

}  // namespace
}  // namespace paceline::store
