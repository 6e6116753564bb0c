#include "paceline/base/counted.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(WithThousands, PutsACommaAfterThreeDigits) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1000), "1,000");
  EXPECT_EQ(with_thousands(-1234567), "-1,234,567");
  EXPECT_EQ(with_thousands(-123), "-123");
}

TEST(Counted, HasAPluralForAllButOne) {
  EXPECT_EQ(counted(0, "commit"), "0 commits");
  EXPECT_EQ(counted(1, "commit"), "1 commit");
  EXPECT_EQ(counted(12345, "commit"), "12,345 commits");
}

}  // namespace
}  // namespace paceline
