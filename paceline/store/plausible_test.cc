// What cannot have been is not told, and neither is anything after it.
#include "paceline/store/plausible.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/store/test_events.h"

namespace paceline::store {
namespace {

using namespace control;

Event joined(int replica) { return Fact{at(0), ReplicaJoined{ReplicaId(replica), "w", 8}}; }
Event left(int replica) { return Fact{at(0), ReplicaLeft{ReplicaId(replica), ""}}; }
Event ready(int replica, std::int64_t clock) {
  return Fact{at(0), ReplicaReady{ReplicaId(replica), Clock(clock), Version(0), Duration(1)}};
}
Event release(int replica, std::int64_t clock) {
  return std::pair(at(0), Order(Release{ReplicaId(replica), Clock(clock), Version(0), {0, 0, 8}, {"", 0, 0}}));
}
Event park(int replica) { return std::pair(at(0), Order(Park{ReplicaId(replica)})); }
Event commit(std::int64_t version, std::vector<int> replicas, std::int64_t base = 0) {
  CommitRecord record;
  record.version = Version(version);
  for (const int replica : replicas) record.members.push_back({ReplicaId(replica), Clock(1), Version(base), {0, 0, 8}, 1, 1});
  return std::pair(at(0), Order(record));
}

TEST(PlausibleTest, WhatAControllerGivesIsToldAsItIs) {
  for (const std::string policy : {"bsp", "asp", "ssp:2", "cgp", "backup:1"}) {
    const std::vector<Event> events = controller_events(policy, 400);
    Recorder recorder;
    Plausible plausible(recorder);
    tell(events, plausible);
    EXPECT_TRUE(plausible.status().ok()) << plausible.status();
    EXPECT_EQ(recorder.lines, describe(events)) << policy;
  }
}

TEST(PlausibleTest, SomebodyMayLeaveComeBackAndBeParked) {
  Recorder recorder;
  Plausible plausible(recorder);
  tell({joined(0), release(0, 1), ready(0, 1), release(0, 2), left(0), joined(0), release(0, 7), ready(0, 7), park(0), release(0, 9), ready(0, 9)}, plausible);
  EXPECT_TRUE(plausible.status().ok()) << plausible.status();
}

TEST(PlausibleTest, NothingIsToldFromTheFirstThingOnThatCannotHaveBeen) {
  const std::vector<std::vector<Event>> cases = {
      {joined(0), joined(0)},
      {joined(5000)},
      {release(0, 1)},
      {left(3)},
      {joined(0), ready(0, 1)},
      {joined(0), release(0, 1), ready(0, 2)},
      {joined(0), release(0, 1), ready(0, 1), ready(0, 1)},
      {joined(0), release(0, 1), ready(0, 1), release(0, 3)},
      {joined(0), release(0, 1), park(0), ready(0, 1)},
      {joined(0), commit(1, {})},
      {joined(0), commit(1, {0}, 1)},
      {joined(0), commit(1, {0, 1})}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Recorder recorder;
    Plausible plausible(recorder);
    tell(cases[i], plausible);
    EXPECT_EQ(plausible.status().code(), absl::StatusCode::kDataLoss) << i;
    EXPECT_EQ(recorder.lines.size(), cases[i].size() - 1) << i;
    tell(joined(1), plausible);
    EXPECT_EQ(recorder.lines.size(), cases[i].size() - 1) << i;
  }
}

}  // namespace
}  // namespace paceline::store
