// The part of RunStats about one replica: its present activity, how long it computed and waited, and, if
// recorded, its lane and gaps. Every operation is O(1) except history().
//
// Invariant: computing, waiting and parked intervals follow each other without overlap.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "paceline/base/ids.h"
#include "paceline/base/sum_of_durations.h"
#include "paceline/base/time.h"
#include "paceline/decisions/policy/sync_policy.h"
#include "paceline/records/stats/first_and_latest.h"
#include "paceline/records/stats/history.h"
#include "paceline/records/stats/summary.h"
#include "paceline/records/stats/thinned.h"

namespace paceline::report {

class ReplicaStats {
 public:
  static constexpr std::size_t kFirstIntervals = 4000;
  static constexpr std::size_t kLatestIntervals = 1000;
  static constexpr std::size_t kActivityPoints = 500;
  static constexpr std::size_t kGapPoints = 1000;
  // A pace is kept if most iterations take at most this much longer, once there are enough iterations to
  // tell.
  static constexpr double kLateShare = 0.1;
  static constexpr Duration kLateLeast = std::chrono::milliseconds(1);
  static constexpr std::int64_t kMostLateOf = 4;  // one of this many may be late
  static constexpr std::int64_t kLeastPaced = 4;

  ReplicaStats(ReplicaId replica, std::string name, bool recorded);

  // `steps`: the local steps that it takes until it is ready, each of which counts as an iteration; 0: a
  // single iteration.
  void released(Time at, Clock iteration, const policy::Reason& why, std::int64_t steps = 0);
  std::int64_t steps() const { return steps_; }  // the steps of its latest release, at least 1
  // Sets how long the iteration of its latest release should take.
  void asked(std::optional<Duration> pace) { asked_ = pace; }
  // `pulling`: the part of `compute` in which its weights were not there yet, which does not count for the
  // pace.
  // `weight`: how much loss and metrics count; nothing: as much as their samples.
  void ready(Time at, Duration compute, Duration pulling, double loss, const Metrics& metrics,
             std::optional<double> weight = {});
  void parked(Time at);
  void left(Time at, const std::string& why);
  void committed(std::int64_t samples, std::int64_t staleness);
  void discarded() { ++discarded_; }
  void saw_gap(Time at, std::int64_t gap);

  const std::string& name() const { return name_; }
  Doing doing() const { return doing_; }
  double last_loss() const { return last_loss_; }
  std::optional<double> last_weight() const { return last_weight_; }
  const Metrics& last_metrics() const { return last_metrics_; }
  bool recorded() const { return static_cast<bool>(recording_); }

  Duration computing(Time now) const { return computing_ + open(Doing::kComputing, now); }
  Duration waiting(Time now) const { return waiting_ + open(Doing::kWaiting, now); }
  ReplicaSummary summary(Time now) const;
  // Goes on in the lane of an earlier replica of this name, which is not recorded any more. Requires: that one is recorded.
  void take_lane_of(ReplicaStats& earlier);
  // Requires: recorded. The present activity is the last interval.
  ReplicaHistory history(Time now) const;

 private:
  struct HigherGap {
    GapPoint operator()(const GapPoint& a, const GapPoint& b) const { return a.gap > b.gap ? a : b; }
  };
  struct Recording {
    FirstAndLatest<Interval> intervals{kFirstIntervals, kLatestIntervals};
    Thinned<ActivityPoint> activity{kActivityPoints};
    Thinned<GapPoint, HigherGap> gaps{kGapPoints};
    Duration computing{0}, waiting{0};  // the sums of earlier replicas
  };
  // Is copied with its replica.
  class Owned {
   public:
    Owned() = default;
    Owned(const Owned& other)
        : recording_(other.recording_ ? std::make_unique<Recording>(*other.recording_) : nullptr) {}
    Owned(Owned&&) = default;
    Owned& operator=(Owned&&) = default;
    void make() { recording_ = std::make_unique<Recording>(); }
    explicit operator bool() const { return recording_ != nullptr; }
    Recording* operator->() const { return recording_.get(); }

   private:
    std::unique_ptr<Recording> recording_;
  };

  void change(Time at, Doing to, const policy::Reason& why);
  Duration open(Doing doing, Time now) const;
  void look_at_pace(Duration taken);
  std::optional<PaceSummary> pace() const;

  // Members that every iteration changes come first, close together: with many replicas each cache line
  // counts.
  Doing doing_ = Doing::kJoining;
  Time since_;
  Clock iteration_;
  std::int64_t steps_ = 1;
  Duration computing_{0};
  Duration waiting_{0};
  Duration compute_sum_{0};
  std::int64_t iterations_ = 0;
  std::int64_t contributions_ = 0;
  std::int64_t samples_ = 0;
  std::int64_t staleness_sum_ = 0;
  double last_loss_ = 0;
  std::optional<double> last_weight_;
  Owned recording_;
  ReplicaId replica_;
  std::int64_t discarded_ = 0;
  std::optional<Duration> asked_;
  Duration asked_sum_{0};
  Duration taken_sum_{0};
  std::int64_t paced_ = 0;
  std::int64_t late_ = 0;  // the iterations of these that were late
  std::string name_;
  std::string left_why_;
  Metrics last_metrics_;
};

// waiting / (waiting + computing); nothing when both are zero.
std::optional<double> share_waiting(SumOfDurations waiting, SumOfDurations computing);

}  // namespace paceline::report
