// What a live run tells the planner, and when: what the stages of a round really took, and which devices came
// and went. The coordinator carries out what comes back. Of the event loop's thread; it knows no clock.
//
// A round is over when every replica has finished an iteration since the last one: under BSP, a commit.
// What the planner cannot see is taken to be synchronizing: a round's time without its slowest replica's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/config/job_config.h"
#include "paceline/planner/online_planner.h"

namespace paceline::rpc {

class Replanner {
 public:
  // Null where the job's plan stays what it is. Errors: InvalidArgument when the job's plan is none of its
  // devices and its model.
  static absl::StatusOr<std::unique_ptr<Replanner>> create(const config::JobConfig& job);

  // A stage has done its part of an iteration of so many samples.
  void worked(const planner::PlannedReplica& replica, std::size_t stage, std::int64_t samples, Duration took);
  void finished(ReplicaId replica, Duration compute);
  // Replicas that have finished something in this round.
  std::size_t finished() const { return finished_.size(); }
  // The replica is no more.
  void dissolved(ReplicaId replica) { finished_.erase(replica); }
  void joined(std::size_t device);
  void left(std::size_t device);

  struct Change {
    planner::Plan plan;
    std::string why;   // of the old replicas' leaving
    std::string line;  // for a person
  };
  // Of replicas and cuts; samples follow speeds without this. Errors: ResourceExhausted when the devices that
  // are left cannot hold the model.
  absl::StatusOr<std::optional<Change>> end_round(Time at);
  // Nobody is left to end it.
  absl::StatusOr<std::optional<Change>> give_up_round(Time at);

 private:
  Replanner(planner::OnlinePlanner planner, std::int64_t micro_batch)
      : planner_(std::move(planner)), micro_batch_(micro_batch) {}
  absl::StatusOr<std::optional<Change>> decide(Time at);

  planner::OnlinePlanner planner_;
  const std::int64_t micro_batch_;  // the whole run's, so that no plan changes what a batch's gradient is
  planner::BatchObservation round_;
  std::set<ReplicaId> finished_;
  Duration slowest_{0};
  std::optional<Time> began_;  // with the end of the one before
  bool changed_ = false;       // the plan, with the end of the one before
};

}  // namespace paceline::rpc
