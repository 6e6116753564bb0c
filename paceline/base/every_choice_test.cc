// The enumerator that the exhaustive tests lean on: every combination, each once, also when later choices
// depend on earlier ones.
#include "paceline/base/testing/every_choice.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace paceline::testing {
namespace {

TEST(EveryChoice, CodeThatChoosesNothingRunsOnce) {
  int runs = 0;
  for (EveryChoice choose; choose.again();) ++runs;
  EXPECT_EQ(runs, 1);
}

TEST(EveryChoice, IndependentChoicesMultiply) {
  std::set<std::string> seen;
  int runs = 0;
  for (EveryChoice choose; choose.again(); ++runs) {
    choose.below(3);
    choose.below(1);
    choose.yes();
    seen.insert(choose.path());
  }
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(seen.size(), 6u);
}

TEST(EveryChoice, GivesEveryPermutation) {
  std::set<std::string> seen;
  int runs = 0;
  for (EveryChoice choose; choose.again(); ++runs) {
    std::string left = "abcde";
    std::string word;
    while (!left.empty()) {
      const std::size_t pick = choose.below(left.size());
      word += left[pick];
      left.erase(pick, 1);
    }
    seen.insert(word);
  }
  EXPECT_EQ(runs, 120);
  EXPECT_EQ(seen.size(), 120u);
}

TEST(EveryChoice, LaterChoicesMayDependOnEarlierOnes) {
  // 0 ends at once; 1 chooses among two more; 2 among three.
  int runs = 0;
  for (EveryChoice choose; choose.again(); ++runs) {
    const std::size_t first = choose.below(3);
    if (first > 0) choose.below(first + 1);
  }
  EXPECT_EQ(runs, 1 + 2 + 3);
}

TEST(EveryChoiceDeathTest, CodeThatChangesItsMindIsABug) {
  EXPECT_DEATH(
      {
        std::size_t bound = 2;
        for (EveryChoice choose; choose.again(); ++bound) choose.below(bound);
      },
      "choice 0 was among 2, now 3");
}

}  // namespace
}  // namespace paceline::testing
