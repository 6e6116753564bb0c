// The story of a run, as the report draws it: plain values of bounded size, made by RunStats. The number of
// entries left out of a long run is kept, so that the report can show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/container/inlined_vector.h>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/policy/sync_policy.h"
#include "paceline/records/stats/group_histogram.h"
#include "paceline/records/stats/staleness_histogram.h"
#include "paceline/records/stats/summary.h"

namespace paceline::report {

// The activity of a replica from `start` to `end`. Never empty.
struct Interval {
  Time start;
  Time end;
  Doing doing = Doing::kWaiting;  // computing, waiting or parked
  Clock iteration;                // the iteration that is computed, or that was finished last
  policy::Reason ended;           // why the activity ended; of waiting: the reason of the release
};

// How long a replica had computed and waited until `at`: drawn in a lane where intervals are left out.
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
  Metrics metrics = {};      // the user's own, averaged in the same way
};

// A commit of several gradients.
struct Group {
  using Members = absl::InlinedVector<ReplicaId, 4>;

  Time at;
  Version version;
  std::int64_t size = 0;
  Members drawn;  // its replicas that have a lane, ascending; or those that have theirs now
  policy::Reason why;
};

struct GroupHistory {
  GroupHistogram sizes;       // sizes of all commits
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

// Several consecutive batches, and how long devices computed in their time.
struct BatchPoint {
  Time at;                // the end of the last one
  BatchSums regular;      // the sums of those without a change of plan
  double elapsed_ms = 0;  // the time of all these batches together
  std::int64_t batches = 1;
  std::vector<double> computed_ms;  // indexed by device; missing: nothing
  // cost and allowed sum over all these batches, the queue is the last one's
  std::optional<control::Spending> spending{};
};

// The transfers between stages that were done at `at`.
struct LinkPoint {
  Time at;
  double bytes = 0;
  double seconds = 0;  // the time of these transfers
};

struct LinkHistory {
  HostPlace from, to;
  std::vector<LinkPoint> points;
};

struct PlanHistory {
  std::vector<PlanPeriod> plans;  // ascending; the first and the latest of a long run
  std::int64_t plans_left_out = 0;
  std::vector<BatchPoint> batches;
  std::vector<LinkHistory> links;  // ascending by hosts
};

struct Event {
  Time at;
  std::string replica;  // the replica's name; empty if the event concerns all
  std::string text;     // one line for people
};

struct ReplicaHistory {
  ReplicaId replica;
  std::vector<Interval> intervals;  // ascending; the first and the latest of a long run
  std::int64_t intervals_left_out = 0;
  std::vector<ActivityPoint> activity;  // sums over the whole run
  std::vector<GapPoint> gaps;           // each time when it became ready or was released
};

struct History {
  Time start;                         // the first release
  std::int64_t samples_at_start = 0;  // committed before the start: a resumed run
  std::vector<control::Evaluated> evaluations;
  std::vector<TrainingPoint> training;
  StalenessHistogram staleness;
  GroupHistory groups;
  std::vector<ReplicaHistory> replicas;  // only replicas with a lane, at most RunStats::kRecordedReplicas
  std::vector<Event> events;
  std::int64_t events_left_out = 0;
  PlanHistory plans;
};

}  // namespace paceline::report
