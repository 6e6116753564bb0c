// The story of a run, as the report draws it: plain values of bounded size, made by RunStats. What is left
// out of a long run is counted, so that the report can say so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/container/inlined_vector.h>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/base/time.h"
#include "paceline/control/run_listener.h"
#include "paceline/policy/sync_policy.h"
#include "paceline/report/group_histogram.h"
#include "paceline/report/staleness_histogram.h"
#include "paceline/report/summary.h"

namespace paceline::report {

// What a replica did from `start` to `end`. Never empty.
struct Interval {
  Time start;
  Time end;
  Doing doing = Doing::kWaiting;  // computing, waiting or parked
  Clock iteration;                // that is computed, or that was finished last
  policy::Reason ended;           // why it ended: the reason of the release, for one that waited
};

// How long a replica had computed and waited until `at`: what a lane shows where its intervals are left out.
struct ActivityPoint {
  Time at;
  Duration computing{0};
  Duration waiting{0};
};

struct GapPoint {
  Time at;
  std::int64_t gap = 0;
};

struct TrainingPoint {
  Time at;
  std::int64_t samples = 0;  // committed
  double loss = 0;           // LossAverage
  Metrics metrics = {};      // the user's own, averaged alike
};

// A commit of several gradients.
struct Group {
  using Members = absl::InlinedVector<ReplicaId, 4>;

  Time at;
  Version version;
  std::int64_t size = 0;
  Members drawn;  // of its replicas those that have a lane, ascending
  policy::Reason why;
};

struct GroupHistory {
  GroupHistogram sizes;       // of all commits
  std::vector<Group> formed;  // ascending; the first and the latest of a long run
  std::int64_t left_out = 0;
};

// A plan while it was in use.
struct PlanPeriod {
  Time from;
  planner::Plan plan;
  double predicted_ms = 0;  // when it was adopted
  std::string why;
  BatchSums batches;
};

// Some batches in a row: what devices computed of their time.
struct BatchPoint {
  Time at;                // the end of the last one
  BatchSums regular;      // of them
  double elapsed_ms = 0;  // all together
  std::int64_t batches = 1;
  std::vector<double> computed_ms;              // by device; missing: nothing
  std::optional<control::Spending> spending{};  // cost and allowed all together, the queue of the last one
};

// Transfers between stages, until `at`.
struct LinkPoint {
  Time at;
  double bytes = 0;
  double seconds = 0;  // that they took
};

struct LinkHistory {
  HostPlace from, to;
  std::vector<LinkPoint> points;
};

struct PlanHistory {
  std::vector<PlanPeriod> plans;  // ascending; the first and the latest of a long run
  std::int64_t plans_left_out = 0;
  std::vector<BatchPoint> batches;
  std::vector<LinkHistory> links;  // of hosts, ascending
};

struct Event {
  Time at;
  std::string replica;  // its name; empty when it concerns all
  std::string text;     // one line for people
};

struct ReplicaHistory {
  ReplicaId replica;
  std::vector<Interval> intervals;  // ascending; the first and the latest of a long run
  std::int64_t intervals_left_out = 0;
  std::vector<ActivityPoint> activity;  // of the whole run
  std::vector<GapPoint> gaps;           // when it became ready and when it was released
};

struct History {
  Time start;                         // the first release
  std::int64_t samples_at_start = 0;  // committed before: a resumed run
  std::vector<control::Evaluated> evaluations;
  std::vector<TrainingPoint> training;
  StalenessHistogram staleness;
  GroupHistory groups;
  std::vector<ReplicaHistory> replicas;  // of the first RunStats::kRecordedReplicas
  std::vector<Event> events;
  std::int64_t events_left_out = 0;
  PlanHistory plans;
};

}  // namespace paceline::report
