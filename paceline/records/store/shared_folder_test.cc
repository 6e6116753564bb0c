#include "paceline/records/store/shared_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/mark_file.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

using ::testing::HasSubstr;
constexpr std::chrono::milliseconds kAtOnce{0};

TEST(SharedFolder, AMarkIsFoundWhereItIs) {
  const TestDirectory directory;
  {
    const auto mark = MarkFile::leave(directory / "mark");
    ASSERT_TRUE(mark.ok()) << mark.status();
    EXPECT_TRUE(check_shared(mark->file(), mark->text(), "host1", kAtOnce).ok());
    EXPECT_EQ(directory.count(), 1);  // the file of the write test is removed
  }
  EXPECT_EQ(directory.count(), 0);
}

TEST(SharedFolder, AnotherFolderIsNotTakenForIt) {
  const TestDirectory directory;
  const TestDirectory other;
  const auto mark = MarkFile::leave(directory / "mark");
  const auto others = MarkFile::leave(other / "mark");
  ASSERT_TRUE(mark.ok() && others.ok());
  const absl::Status wrong = check_shared(other / "mark", mark->text(), "host1", kAtOnce);
  EXPECT_TRUE(absl::IsFailedPrecondition(wrong));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("the mark of another"));
  const absl::Status none = check_shared(other / "none" / "mark", mark->text(), "host1", kAtOnce);
  EXPECT_TRUE(absl::IsFailedPrecondition(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("on a disk that all hosts share"));
  EXPECT_EQ(other.count(), 1);
}

}  // namespace
}  // namespace paceline::store
