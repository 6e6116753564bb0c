#include "paceline/decisions/policy/return_path.h"

#include <initializer_list>
#include <utility>

#include <gtest/gtest.h>

namespace paceline::policy {
namespace {

Time at(double seconds) { return Time{} + from_seconds(seconds); }
double seconds(Time time) { return to_seconds(time - Time{}); }

// Versions 1, 2, … are ordered at these times, by groups of two.
ReturnPath path_of(std::initializer_list<double> ordered) {
  ReturnPath path;
  std::int64_t version = 0;
  for (const double one : ordered) path.ordered(Version(++version), 2, at(one));
  return path;
}

// A member of each of these versions had its weights then.
void tell(ReturnPath& path, std::initializer_list<std::pair<int, double>> arrivals) {
  for (const auto& [version, when] : arrivals) path.arrived(Version(version), at(when));
}

TEST(ReturnPath, HoldsNobodyUpBeforeItKnowsAnything) {
  ReturnPath path = path_of({1, 2});
  EXPECT_EQ(path.free_soon(1), Time::min());
  tell(path, {{1, 3}, {2, 5}});
  EXPECT_EQ(path.free_soon(1), Time::min())
      << "whether 2 was held up, or its member's link is slow, 3 will tell";
}

TEST(ReturnPath, IsBusyWithTheWeightsOfEachCommit) {
  ReturnPath path = path_of({1, 1.5, 2, 2.5});
  tell(path, {{1, 3}, {2, 5}, {3, 7}});
  // Each commit takes two seconds, and a group goes a twentieth of that early. No member has told of the
  // fourth yet.
  EXPECT_DOUBLE_EQ(seconds(path.free_soon(1)), 9 - 0.1);
  path.ordered(Version(5), 1, at(3));
  EXPECT_DOUBLE_EQ(seconds(path.free_soon(1)), 11 - 0.1);
  path.arrived(Version(4), at(9.5));
  EXPECT_DOUBLE_EQ(seconds(path.free_soon(1)), 11.5 - 0.1) << "what is behind it comes later too";
}

TEST(ReturnPath, HearsOutOfOrder) {
  ReturnPath path = path_of({1, 1.5, 2, 2.5});
  tell(path, {{3, 7}, {2, 5}, {1, 3}});
  path.ordered(Version(5), 2, at(6));
  EXPECT_DOUBLE_EQ(seconds(path.free_soon(1)), 9 - 0.1)
      << "the fourth was expected before a commit's cost was known";
  path.arrived(Version(4), at(9));
  EXPECT_DOUBLE_EQ(seconds(path.free_soon(1)), 11 - 0.1);
  path.arrived(Version(7), at(20));
  EXPECT_DOUBLE_EQ(seconds(path.free_soon(1)), 11 - 0.1) << "no such commit";
}

TEST(ReturnPath, AMembersOwnSlowLinkKeepsNobodyElseWaiting) {
  ReturnPath path = path_of({1, 1.5, 2, 2.5});
  tell(path, {{1, 3}, {2, 15}, {3, 7}});
  EXPECT_EQ(path.free_soon(1), Time::min()) << "no two are known to have followed each other";
  path.ordered(Version(5), 2, at(7));
  tell(path, {{4, 9}, {5, 11}});
  EXPECT_DOUBLE_EQ(seconds(path.free_soon(1)), 11 - 0.1);
}

TEST(ReturnPath, DoesNotCountTheTimeBeforeTheWayIsBusy) {
  ReturnPath path;
  for (int version = 1; version <= 4; ++version) {
    path.ordered(Version(version), 1, at(10 * version));
    path.arrived(Version(version), at(10 * version + 3));
  }
  EXPECT_LT(seconds(path.free_soon(1)), 43) << "it is free";
  path.ordered(Version(5), 1, at(50));
  path.ordered(Version(6), 1, at(50.5));
  tell(path, {{5, 53}, {6, 53.5}});
  path.ordered(Version(7), 1, at(60));
  path.arrived(Version(7), at(63));
  // Half a second each, and two and a half before.
  path.ordered(Version(8), 1, at(70));
  EXPECT_NEAR(seconds(path.free_soon(1)), 73 - 2.5, 0.1);
}

TEST(ReturnPath, ForgetsWhatWasLongAgo) {
  ReturnPath path;
  for (int version = 1; version <= 5000; ++version) path.ordered(Version(version), 1, at(version));
  path.arrived(Version(1), at(9999));
  EXPECT_EQ(path.free_soon(1), Time::min());
  for (int version = 4990; version <= 5000; ++version) path.arrived(Version(version), at(version + 0.5));
  EXPECT_LE(seconds(path.free_soon(1)), 5000.5);
}

}  // namespace
}  // namespace paceline::policy
