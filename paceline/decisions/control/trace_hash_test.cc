#include "paceline/decisions/control/trace_hash.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "paceline/decisions/control/to_string.h"

namespace paceline::control {
namespace {

constexpr Time at(std::int64_t ns) { return Time(Duration(ns)); }

std::uint64_t hash_of(const Fact& fact) {
  TraceHash hash;
  hash.on_fact(fact);
  return hash.value();
}

std::uint64_t hash_of(const Order& order, Time when = at(5)) {
  TraceHash hash;
  hash.on_order(when, order);
  return hash.value();
}

// Changes one field of a copy.
template <class T, class Change>
T with(T original, Change change) {
  change(original);
  return original;
}

// All hashes differ from each other.
class Distinct {
 public:
  template <class FactOrOrder>
  void add(const FactOrOrder& one) {
    EXPECT_TRUE(seen_.insert(hash_of(one)).second) << to_string(one);
  }

 private:
  std::set<std::uint64_t> seen_;
};

const CommitMember kMember{ReplicaId(1), Clock(2), Version(3), {4, 5, 6}, 0.25, 0.5};

CommitRecord commit() {
  return {.version = Version(4),
          .members = {kMember},
          .samples = 1,
          .nominal = 2,
          .committed_before = 3,
          .learning_rate = 0.1,
          .fraction = 0.5,
          .keep_for_evaluation = false,
          .checkpoint = ControllerState{Version(4), {9, {{1, 2}}}, {{"w0", Clock(7)}}},
          .why = {"all {} of {}", 8, 9}};
}

TEST(TraceHash, EveryFieldOfAFactCounts) {
  Distinct all;
  const ReplicaJoined joined{ReplicaId(1), "w1", 4};
  const ReplicaReady ready{ReplicaId(1), Clock(2), Version(3), Duration(4), 0.5};
  for (const Time when : {at(0), at(1), at(-1)}) all.add(Fact{when, joined});
  const Time now = at(5);
  all.add(Fact{now, joined});
  all.add(Fact{now, with(joined, [](auto& f) { f.replica = ReplicaId(2); })});
  all.add(Fact{now, with(joined, [](auto& f) { f.name = "w2"; })});
  all.add(Fact{now, with(joined, [](auto& f) { f.name = std::string("w1\0", 3); })});
  all.add(Fact{now, with(joined, [](auto& f) { f.name = "eight!!!"; })});
  all.add(Fact{now, with(joined, [](auto& f) { f.name = "eight!!!9"; })});
  all.add(Fact{now, with(joined, [](auto& f) { f.batch = 5; })});
  all.add(Fact{now, ReplicaLeft{ReplicaId(1), ""}});
  all.add(Fact{now, ReplicaLeft{ReplicaId(2), ""}});
  all.add(Fact{now, ReplicaLeft{ReplicaId(1), "why"}});
  all.add(Fact{now, ready});
  all.add(Fact{now, with(ready, [](auto& f) { f.replica = ReplicaId(2); })});
  all.add(Fact{now, with(ready, [](auto& f) { f.clock = Clock(3); })});
  all.add(Fact{now, with(ready, [](auto& f) { f.base = Version(4); })});
  all.add(Fact{now, with(ready, [](auto& f) { f.compute = Duration(5); })});
  all.add(Fact{now, TimerRang{}});
  all.add(Fact{now, StopAsked{"now"}});
  all.add(Fact{now, StopAsked{"later"}});
  all.add(Fact{now, CommitComplete{Version(1)}});
  all.add(Fact{now, CommitComplete{Version(2)}});
}

TEST(TraceHash, ALossDoesNotCount) {
  const ReplicaReady ready{ReplicaId(1), Clock(2), Version(3), Duration(4), 0.5};
  const ReplicaReady other = with(ready, [](auto& f) { f.loss = std::numeric_limits<double>::quiet_NaN(); });
  EXPECT_EQ(hash_of(Fact{at(1), ready}), hash_of(Fact{at(1), other}));
}

TEST(TraceHash, WhatNothingIsDecidedByDoesNotCount) {
  const ReplicaReady ready{ReplicaId(1), Clock(2), Version(3), Duration(4), 0.5};
  const auto same = [&](auto change) {
    EXPECT_EQ(hash_of(Fact{at(1), ready}), hash_of(Fact{at(1), with(ready, change)}));
  };
  same([](auto& f) { f.loading = Duration(1); });
  same([](auto& f) { f.pulling = Duration(1); });
  EXPECT_EQ(hash_of(Order(Finish{"done", FinishCause::kEverySample})),
            hash_of(Order(Finish{"done", FinishCause::kStopped})));
}

TEST(TraceHash, EveryFieldOfACommitCounts) {
  Distinct all;
  const auto changed = [&](auto change) { all.add(Order(with(commit(), change))); };
  all.add(Order(commit()));
  changed([](auto& c) { c.version = Version(5); });
  changed([](auto& c) { c.samples = 2; });
  changed([](auto& c) { c.nominal = 3; });
  changed([](auto& c) { c.committed_before = 4; });
  changed([](auto& c) { c.learning_rate = std::nextafter(0.1, 1.0); });
  changed([](auto& c) { c.fraction = std::nextafter(0.5, 1.0); });
  changed([](auto& c) { c.keep_for_evaluation = true; });
  changed([](auto& c) { c.of_differences = true; });
  changed([](auto& c) { c.why.text = "all {} or {}"; });
  changed([](auto& c) { c.why.a = 9; });
  changed([](auto& c) { c.why.b = 8; });
  changed([](auto& c) { c.members.clear(); });
  changed([](auto& c) { c.members.push_back(kMember); });
  changed([](auto& c) { c.members[0].replica = ReplicaId(2); });
  changed([](auto& c) { c.members[0].clock = Clock(3); });
  changed([](auto& c) { c.members[0].base = Version(2); });
  changed([](auto& c) { c.members[0].lease.epoch = 5; });
  changed([](auto& c) { c.members[0].lease.begin = 4; });
  changed([](auto& c) { c.members[0].lease.end = 7; });
  changed([](auto& c) { c.members[0].weight = -0.25; });
  changed([](auto& c) { c.members[0].share = 0.25; });
  changed([](auto& c) { c.checkpoint.reset(); });
  changed([](auto& c) { c.checkpoint->version = Version(5); });
  changed([](auto& c) { c.checkpoint->ledger.next = 8; });
  changed([](auto& c) { c.checkpoint->ledger.open = {{1, 3}}; });
  changed([](auto& c) { c.checkpoint->ledger.open.clear(); });
  changed([](auto& c) { c.checkpoint->clocks = {{"w0", Clock(8)}}; });
  changed([](auto& c) { c.checkpoint->clocks = {{"w1", Clock(7)}}; });
  changed([](auto& c) { c.checkpoint->clocks.clear(); });
}

TEST(TraceHash, EveryFieldOfTheOtherOrdersCounts) {
  Distinct all;
  const Release release{ReplicaId(1), Clock(2), Version(3), {4, 5, 6}, {"{} ahead", 7, 0}};
  const Discard discard{ReplicaId(1), Clock(2), {"gone", 0, 0}};
  const auto add = [&](const Order& order) { all.add(order); };
  add(release);
  add(with(release, [](auto& o) { o.replica = ReplicaId(2); }));
  add(with(release, [](auto& o) { o.clock = Clock(3); }));
  add(with(release, [](auto& o) { o.version = Version(4); }));
  add(with(release, [](auto& o) { o.lease.end = 7; }));
  add(with(release, [](auto& o) { o.why.a = 8; }));
  for (const int value : {2, 3}) {
    add(with(release, [&](auto& o) { o.learning_rate = value; }));
    add(with(release, [&](auto& o) { o.staleness = value; }));
    add(with(release, [&](auto& o) { o.fraction = value; }));
    add(with(release, [&](auto& o) { o.steps = value; }));
  }
  add(discard);
  add(with(discard, [](auto& o) { o.replica = ReplicaId(2); }));
  add(with(discard, [](auto& o) { o.clock = Clock(3); }));
  add(with(discard, [](auto& o) { o.why.text = "late"; }));
  add(Park{ReplicaId(1)});
  add(Park{ReplicaId(2)});
  add(WakeAt{at(1)});
  add(WakeAt{at(2)});
  add(Finish{"done"});
  add(Finish{"stopped"});
  EXPECT_NE(hash_of(Order(release), at(6)), hash_of(Order(release), at(7)));
}

// A journal does not have it, and its hash is the run's.
TEST(TraceHash, WhatIsReservedAheadDoesNotCount) {
  const Release release{ReplicaId(1), Clock(2), Version(3), {4, 5, 6}, {"{} ahead", 7, 0}};
  const Release other = with(release, [](auto& o) { o.ahead = {{4, 6, 8}}; });
  EXPECT_EQ(hash_of(Order(release)), hash_of(Order(other)));
}

TEST(TraceHash, TheOrderCounts) {
  TraceHash one;
  one.on_order(at(1), Park{ReplicaId(1)});
  one.on_order(at(1), Park{ReplicaId(2)});
  TraceHash other;
  other.on_order(at(1), Park{ReplicaId(2)});
  other.on_order(at(1), Park{ReplicaId(1)});
  EXPECT_NE(one.value(), other.value());
}

TEST(TraceHash, EvaluationsDoNotCount) {
  TraceHash hash;
  hash.on_evaluated({at(1), Version(1), 10, 3.0, 0.5});
  EXPECT_EQ(hash.value(), TraceHash().value());
}

TEST(TraceHash, IsTheSameOnEveryMachine) {
  TraceHash hash;
  hash.on_fact({at(1), ReplicaJoined{ReplicaId(0), "a name of some length", 32}});
  hash.on_order(at(2), Order(commit()));
  EXPECT_EQ(hash.hex(), "f531560b51ac8b8a");
}

}  // namespace
}  // namespace paceline::control
