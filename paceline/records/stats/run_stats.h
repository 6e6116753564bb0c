// The statistics of a run: a fold of its facts and orders, live or from a replayed journal. Made by every
// host of a Controller; one thread. An event costs O(log P), and memory is bounded by the largest replica
// number, however many events there are.
//
// RunStats sees only events that the Controller accepted (see RunListener), so an unknown replica is a bug of
// ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/policy/clock_board.h"
#include "paceline/records/stats/first_and_latest.h"
#include "paceline/records/stats/group_stats.h"
#include "paceline/records/stats/history.h"
#include "paceline/records/stats/loss_average.h"
#include "paceline/records/stats/plan_stats.h"
#include "paceline/records/stats/replica_stats.h"
#include "paceline/records/stats/staleness_histogram.h"
#include "paceline/records/stats/summary.h"
#include "paceline/records/stats/thinned.h"
#include "paceline/records/stats/update_times.h"

namespace paceline::report {

class RunStats final : public control::RunListener {
 public:
  // Lanes and gaps are kept of this many replicas, those that joined first. A replica of the same name that joins after
  // one has left goes on in its lane.
  static constexpr std::size_t kRecordedReplicas = 64;
  static constexpr std::size_t kCurvePoints = 2000;
  static constexpr std::size_t kFirstEvents = 500;
  static constexpr std::size_t kLatestEvents = 500;
  // The training loss is averaged over about this many bulk updates.
  static constexpr std::int64_t kLossWindowBulks = 10;
  // The user's own metrics that are averaged, those that came first; the journal has all.
  static constexpr std::size_t kAveragedMetrics = 32;

  // `samples_at_start`: the committed samples that the first event follows; by default, those before the first commit.
  explicit RunStats(RunInfo info, std::optional<std::int64_t> samples_at_start = std::nullopt);

  // Describes the run as it is now: a later attempt knows more of it.
  void describe(RunInfo info);

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated& evaluated) override;
  void on_side_work(const control::SideWork& work) override { updates_.add(work); }

  // O(P). `now`: not before the latest event; after the end it does not matter.
  Summary summary(Time now) const;
  // Whether a history has the lanes, which are most of it.
  enum class Lanes { kAll, kNone };
  History history(Time now, Lanes lanes = Lanes::kAll) const;

 private:
  void on(Time at, const control::ReplicaJoined& fact);
  void on(Time at, const control::ReplicaLeft& fact);
  void on(Time at, const control::ReplicaReady& fact);
  void on(Time, const control::TimerRang&) {}
  void on(Time at, const control::StopAsked& fact);
  void on(Time, const control::CommitComplete&) {}
  void on(Time at, const control::CommitRecord& order);
  void on(Time at, const control::Release& order);
  void on(Time, const control::Discard& order) { replica(order.replica).discarded(); }
  void on(Time at, const control::Park& order);
  void on(Time, const control::WakeAt&) {}
  void on(Time at, const control::Finish& order);
  void on(Time, const control::DeviceJoined&) {}
  void on(Time, const control::DeviceLeft&) {}
  void on(Time, const control::DeviceOutOfMemory&) {}
  void on(Time at, const control::LinkMeasured& fact) { plans_.add(at, fact); }
  void on(Time, const control::PlanSearched&) {}
  void on(Time, const control::SearchPlan&) {}
  void on(Time at, const control::PlanAdopted& order);
  void on(Time, const control::NoPlan&) {}
  void on(Time, const control::BatchDone& order) { plans_.add(order); }

  ReplicaStats& replica(ReplicaId id);
  void add_replica(const control::ReplicaJoined& fact);
  GroupHistory groups() const;
  void average_loss(Time at, const ReplicaStats& from, std::int64_t samples, std::int64_t window);
  void average_metrics(const ReplicaStats& from, std::int64_t samples, std::int64_t window);
  Metrics training_metrics() const;
  void leave_board(ReplicaId id);
  Time until(Time now) const { return finished_ ? finished_at_ : now; }
  void add_activity(Time now, Summary& summary) const;

  RunInfo info_;
  std::optional<std::int64_t> data_end_;               // the samples of the data, once its end was reached
  std::vector<std::optional<ReplicaStats>> replicas_;  // indexed by replica
  std::size_t lanes_ = 0;                              // the replicas that have a lane
  std::map<std::string, ReplicaId> lane_by_name_;
  policy::ClockBoard clocks_;  // released replicas, and those that wait for a release
  StalenessHistogram staleness_;
  GroupStats groups_;
  PlanStats plans_;
  UpdateTimes updates_;
  LossAverage loss_;
  std::map<std::string, LossAverage> metrics_;
  bool loss_is_number_ = true;
  Thinned<TrainingPoint> training_{kCurvePoints};
  Thinned<control::Evaluated> evaluations_{kCurvePoints};
  FirstAndLatest<Event> events_{kFirstEvents, kLatestEvents};
  std::optional<control::Evaluated> last_evaluation_;
  std::optional<control::Evaluated> met_target_;
  std::optional<double> best_accuracy_;
  std::optional<double> best_loss_;
  std::optional<Time> start_;
  std::optional<std::int64_t> samples_at_start_;
  std::int64_t samples_ = 0;
  std::int64_t iterations_ = 0;
  std::int64_t commits_ = 0;
  std::int64_t gap_max_ = 0;
  bool finished_ = false;
  Time finished_at_;
  std::string finished_why_;
  std::optional<control::FinishCause> finish_cause_;
};

}  // namespace paceline::report
