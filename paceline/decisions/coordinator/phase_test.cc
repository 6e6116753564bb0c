// The phases of an attempt as a whole: each can be come to, and each but the last two is left.
#include "paceline/decisions/coordinator/phase.h"

#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

TEST(Phases, EachHasAWayInAndAWayOut) {
  std::set<Phase> entered{Phase::kStarting}, left{Phase::kWentBack, Phase::kOver};
  for (const Transition<Phase>& one : transitions()) {
    EXPECT_NE(one.from, one.to);
    entered.insert(one.to);
    left.insert(one.from);
  }
  EXPECT_EQ(entered.size(), kPhases);
  EXPECT_EQ(left.size(), kPhases);
}

TEST(Phases, NothingFollowsTheEnd) {
  for (int i = 0; i < kPhases; ++i) {
    EXPECT_FALSE(may_follow(Phase::kWentBack, static_cast<Phase>(i)));
    EXPECT_FALSE(may_follow(Phase::kOver, static_cast<Phase>(i)));
    EXPECT_FALSE(may_follow(static_cast<Phase>(i), Phase::kStarting));
  }
}

TEST(Phases, TheDiagramInTheDocumentsIsThis) {
  std::ifstream file("docs/recovery.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), testing::HasSubstr("```mermaid\n" + diagram() + "```\n"));
}

}  // namespace
}  // namespace paceline::coordinator
