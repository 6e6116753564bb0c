// Passing a status up: once, unchanged, and with nothing done after it.
#include "paceline/base/status_macros.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Status bad() { return absl::NotFoundError("no such file: a.txt"); }

absl::StatusOr<std::unique_ptr<int>> make(bool works) {
  if (!works) return bad();
  return std::make_unique<int>(5);
}

absl::Status two_steps(absl::Status first, int& calls) {
  ++calls;
  PACELINE_RETURN_IF_ERROR(first);
  ++calls;
  return absl::OkStatus();
}

TEST(ReturnIfError, GoesOnWhenAllIsWell) {
  int calls = 0;
  EXPECT_TRUE(two_steps(absl::OkStatus(), calls).ok());
  EXPECT_EQ(calls, 2);
}

TEST(ReturnIfError, PassesTheErrorUpAsItIs) {
  int calls = 0;
  EXPECT_EQ(two_steps(bad(), calls), bad());
  EXPECT_EQ(calls, 1);
}

TEST(ReturnIfError, EvaluatesItsExpressionOnce) {
  int evaluations = 0;
  const auto run = [&]() -> absl::Status {
    PACELINE_RETURN_IF_ERROR((++evaluations, bad()));
    return absl::OkStatus();
  };
  EXPECT_FALSE(run().ok());
  EXPECT_EQ(evaluations, 1);
}

absl::StatusOr<int> sum(bool first, bool second) {
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<int> a, make(first));
  PACELINE_ASSIGN_OR_RETURN(auto b, make(second));
  return *a + *b;
}

TEST(AssignOrReturn, MovesTheValueOut) { EXPECT_EQ(sum(true, true).value(), 10); }

TEST(AssignOrReturn, PassesTheErrorUpAsItIs) {
  EXPECT_EQ(sum(false, true).status(), bad());
  EXPECT_EQ(sum(true, false).status(), bad());
}

TEST(AssignOrReturn, AssignsToWhatIsThereAlready) {
  const auto run = [](std::unique_ptr<int>& out) -> absl::Status {
    PACELINE_ASSIGN_OR_RETURN(out, make(true));
    return absl::OkStatus();
  };
  std::unique_ptr<int> out;
  EXPECT_TRUE(run(out).ok());
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(*out, 5);
}

}  // namespace
}  // namespace paceline
