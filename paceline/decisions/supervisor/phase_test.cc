// The phases of a launcher as a whole: each can be come to, and each but the last is left.
#include "paceline/decisions/supervisor/phase.h"

#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::supervisor {
namespace {

TEST(SupervisorPhases, EachHasAWayInAndAWayOut) {
  std::set<Phase> entered{Phase::kStarting}, left{Phase::kOver};
  for (const Transition<Phase>& one : transitions()) {
    EXPECT_NE(one.from, one.to);
    entered.insert(one.to);
    left.insert(one.from);
  }
  EXPECT_EQ(entered.size(), kPhases);
  EXPECT_EQ(left.size(), kPhases);
}

TEST(SupervisorPhases, OnlyALaterOneFollows) {
  for (const Transition<Phase>& one : transitions()) EXPECT_LT(one.from, one.to);
}

TEST(SupervisorPhases, TheDiagramInTheDocumentsIsThis) {
  std::ifstream file("docs/recovery.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), testing::HasSubstr("```mermaid\n" + diagram() + "```\n"));
}

}  // namespace
}  // namespace paceline::supervisor
