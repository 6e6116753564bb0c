#include "paceline/base/exit_reason.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(ExitReason, HasANameThatIsReadAgain) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ExitReason::kUnsaid); ++i) {
    const auto reason = static_cast<ExitReason>(i);
    EXPECT_EQ(exit_reason_named(name_of(reason)), reason);
    names.insert(name_of(reason));
  }
  EXPECT_EQ(names.size(), 12u);
  EXPECT_EQ(exit_reason_named("of old age"), std::nullopt);
}

TEST(ExitReason, GoesWithAnErrorAndLeavesItsTextAlone) {
  const absl::Status error =
      with_exit_reason(absl::UnavailableError("the coordinator is gone"), ExitReason::kCoordinatorLost);
  EXPECT_EQ(exit_reason_of(error), ExitReason::kCoordinatorLost);
  EXPECT_EQ(error.message(), "the coordinator is gone");
  EXPECT_TRUE(absl::IsUnavailable(error));
}

TEST(ExitReason, AnErrorThatSaysNoneIsTheProcesssOwn) {
  EXPECT_EQ(exit_reason_of(absl::OkStatus()), ExitReason::kDone);
  EXPECT_EQ(exit_reason_of(absl::InternalError("out of memory")), ExitReason::kOwnError);
}

}  // namespace
}  // namespace paceline
