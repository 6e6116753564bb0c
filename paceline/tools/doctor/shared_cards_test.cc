#include "paceline/tools/doctor/shared_cards.h"

#include <gtest/gtest.h>

namespace paceline::doctor {
namespace {

TEST(SharedCards, WorkersThatHaveOneEachNeedNoAdvice) {
  EXPECT_EQ(shared_cards(0, 1, false), std::nullopt);
  EXPECT_EQ(shared_cards(1, 1, false), std::nullopt);
  EXPECT_EQ(shared_cards(2, 4, false), std::nullopt);
  EXPECT_EQ(shared_cards(4, 4, true), std::nullopt);
}

TEST(SharedCards, WorkersThatTakeTurnsAreToldOfMps) {
  const auto found = shared_cards(4, 1, false);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->health, Health::kWarn);
  EXPECT_EQ(found->says, "4 workers share 1 GPU in turns: only one of them computes on it at a time");
  EXPECT_EQ(found->fix, "start NVIDIA's MPS before the run, as the same user: nvidia-cuda-mps-control -d");
  EXPECT_EQ(shared_cards(3, 2, false)->says.substr(0, 24), "3 workers share 2 GPUs i");
}

TEST(SharedCards, NothingIsToBeDoneIfMpsRuns) {
  const auto found = shared_cards(2, 1, true);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->health, Health::kOk);
  EXPECT_TRUE(found->fix.empty());
}

}  // namespace
}  // namespace paceline::doctor
