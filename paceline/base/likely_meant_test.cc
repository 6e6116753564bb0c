#include "paceline/base/likely_meant.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(LikelyMeant, IsTheClosestWord) {
  const std::set<std::string> known{"compare", "run", "sweep", "train"};
  EXPECT_EQ(likely_meant("trian", known), "train");
  EXPECT_EQ(likely_meant("compare", known), "compare");
  EXPECT_EQ(likely_meant("sweeps", known), "sweep");
  EXPECT_EQ(likely_meant("rn", known), "run");
}

TEST(LikelyMeant, IsNothingWhereNoneIsClose) {
  EXPECT_EQ(likely_meant("evaluate", {"run", "train"}), std::nullopt);
  EXPECT_EQ(likely_meant("xy", {"run"}), std::nullopt);
  EXPECT_EQ(likely_meant("run", {}), std::nullopt);
}

}  // namespace
}  // namespace paceline
