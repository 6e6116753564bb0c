#include "paceline/base/line_limit.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace std::chrono_literals;

int taken(LineLimit& limit, LineLimit::Time now, int asked) {
  int count = 0;
  for (int i = 0; i < asked; ++i) count += limit.take(now) ? 1 : 0;
  return count;
}

TEST(LineLimit, SoManyAtOnceAndOneASecondAfterThat) {
  LineLimit limit;
  LineLimit::Time now{1h};
  EXPECT_EQ(taken(limit, now, 10'000), LineLimit::kAtOnce);
  EXPECT_EQ(taken(limit, now + 999ms, 10'000), 0);
  EXPECT_EQ(taken(limit, now + 1s, 10'000), 1);
  EXPECT_EQ(taken(limit, now + 6s, 10'000), 5);
  EXPECT_EQ(taken(limit, now + 2h, 10'000), LineLimit::kAtOnce) << "what was not used does not add up";
}

TEST(LineLimit, CountsTheLinesThatItLeavesOut) {
  LineLimit limit;
  const LineLimit::Time now{1h};
  EXPECT_EQ(limit.left_out(now), 0);
  taken(limit, now, LineLimit::kAtOnce + 7);
  EXPECT_EQ(limit.left_out(now + 9s), 0) << "it is not time yet";
  EXPECT_EQ(limit.left_out(now + 10s), 7);
  EXPECT_EQ(limit.left_out(now + 30s), 0) << "it has been said";
}

}  // namespace
}  // namespace paceline
