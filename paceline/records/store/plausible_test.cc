// An impossible event is not told, and nothing after it.
#include "paceline/records/store/plausible.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/test_events.h"

namespace paceline::store {
namespace {

using namespace control;

Event comes(int replica) { return Fact{at(0), ReplicaJoined{ReplicaId(replica), "w", 8}}; }
Event goes(int replica) { return Fact{at(0), ReplicaLeft{ReplicaId(replica), ""}}; }
Event has_done(int replica, std::int64_t clock) {
  return Fact{at(0), ReplicaReady{ReplicaId(replica), Clock(clock), Version(0), Duration(1)}};
}
Event may_begin(int replica, std::int64_t clock) {
  return std::pair(at(0),
                   Order(Release{ReplicaId(replica), Clock(clock), Version(0), {0, 0, 8}, {"", 0, 0}}));
}
Event is_parked(int replica) { return std::pair(at(0), Order(Park{ReplicaId(replica)})); }
Event update_of(std::int64_t version, std::vector<int> replicas, std::int64_t base = 0) {
  CommitRecord record;
  record.version = Version(version);
  for (const int replica : replicas)
    record.members.push_back({ReplicaId(replica), Clock(1), Version(base), {0, 0, 8}, 1, 1});
  return std::pair(at(0), Order(record));
}

TEST(PlausibleTest, TellsAControllersEventsUnchanged) {
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
  tell({comes(0), may_begin(0, 1), has_done(0, 1), may_begin(0, 2), goes(0), comes(0), may_begin(0, 7),
        has_done(0, 7), is_parked(0), may_begin(0, 9), has_done(0, 9)},
       plausible);
  EXPECT_TRUE(plausible.status().ok()) << plausible.status();
}

TEST(PlausibleTest, NothingIsToldFromTheFirstThingOnThatCannotHaveBeen) {
  const std::vector<std::vector<Event>> cases = {
      {comes(0), comes(0)},
      {comes(5000)},
      {may_begin(0, 1)},
      {goes(3)},
      {comes(0), has_done(0, 1)},
      {comes(0), may_begin(0, 1), has_done(0, 2)},
      {comes(0), may_begin(0, 1), has_done(0, 1), has_done(0, 1)},
      {comes(0), may_begin(0, 1), has_done(0, 1), may_begin(0, 3)},
      {comes(0), may_begin(0, 1), is_parked(0), has_done(0, 1)},
      {comes(0), update_of(1, {})},
      {comes(0), update_of(1, {0}, 1)},
      {comes(0), update_of(1, {0, 1})},
      {comes(0), SideWork{.at = {}, .version = Version(1), .server = 5000}},
      {comes(0), SideWork{.at = {}, .version = {}, .took = Duration::max()}},
      {comes(0), SideWork{.at = Time(Duration::min()), .version = {}}}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Recorder recorder;
    Plausible plausible(recorder);
    tell(cases[i], plausible);
    EXPECT_EQ(plausible.status().code(), absl::StatusCode::kDataLoss) << i;
    EXPECT_EQ(recorder.lines.size(), cases[i].size() - 1) << i;
    tell(comes(1), plausible);
    EXPECT_EQ(recorder.lines.size(), cases[i].size() - 1) << i;
  }
}

}  // namespace
}  // namespace paceline::store
