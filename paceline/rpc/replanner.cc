#include "paceline/rpc/replanner.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/config/planning.h"

namespace paceline::rpc {

namespace {

// On one host workers take other roles within a few tens of milliseconds. No trial: what a batch takes beside
// computing is different on every host, and would be blamed on the plan.
constexpr double kMigrationMs = 100;
constexpr std::int64_t kTrialBatches = 0;

double in_ms(Duration duration) { return to_seconds(duration) * 1e3; }

bool changes_replicas(planner::DecisionKind kind) {
  return kind != planner::DecisionKind::kKeep && kind != planner::DecisionKind::kData;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replanner>> Replanner::create(const config::JobConfig& job) {
  const config::ParallelConfig& parallel = job.parallel;
  if (parallel.mode != config::Parallel::kJoint || parallel.model.layers.empty()) return nullptr;
  planner::Problem problem = config::planning_problem(job, parallel.model, config::RunTime::kWall);
  problem.batch = 0;
  for (const planner::PlannedReplica& replica : parallel.plan.replicas) problem.batch += replica.samples;
  problem.micro_batches = {std::min(parallel.plan.micro_batch, problem.batch)};
  planner::Plan plan = parallel.plan;
  plan.micro_batch = problem.micro_batches.front();
  planner::OnlineOptions options;
  options.seed = job.seed;
  options.trial = kTrialBatches;
  options.migration_ms = kMigrationMs;
  PACELINE_ASSIGN_OR_RETURN(auto planner, planner::OnlinePlanner::from(std::move(problem), options, plan));
  return std::unique_ptr<Replanner>(new Replanner(std::move(planner), parallel.plan.micro_batch));
}

void Replanner::worked(const planner::PlannedReplica& replica, std::size_t stage, std::int64_t samples,
                       Duration took) {
  round_.stages.push_back({.device = replica.devices[stage],
                           .begin = replica.begin(stage),
                           .end = replica.end(stage, planner_.measured().layers()),
                           .samples = samples,
                           .micro_batches = (samples + micro_batch_ - 1) / micro_batch_,
                           .compute_ms = in_ms(took)});
}

void Replanner::finished(ReplicaId replica, Duration compute) {
  finished_.insert(replica);
  slowest_ = std::max(slowest_, compute);
}

void Replanner::joined(std::size_t device) {
  std::erase(round_.left, static_cast<std::int32_t>(device));
  round_.joined.push_back(static_cast<std::int32_t>(device));
}

void Replanner::left(std::size_t device) {
  std::erase(round_.joined, static_cast<std::int32_t>(device));
  round_.left.push_back(static_cast<std::int32_t>(device));
}

absl::StatusOr<std::optional<Replanner::Change>> Replanner::end_round(Time at) {
  if (began_) {
    round_.batch_ms = in_ms(at - *began_);
    if (!changed_) round_.sync_ms = round_.batch_ms - in_ms(slowest_);
  }
  return decide(at);
}

absl::StatusOr<std::optional<Replanner::Change>> Replanner::give_up_round(Time at) { return decide(at); }

absl::StatusOr<std::optional<Replanner::Change>> Replanner::decide(Time at) {
  const planner::BatchObservation round = std::exchange(round_, {});
  finished_.clear();
  slowest_ = Duration::zero();
  began_ = at;
  PACELINE_ASSIGN_OR_RETURN(const planner::Decision decision, planner_.after_batch(round));
  changed_ = changes_replicas(decision.kind);
  if (!changed_) return std::nullopt;
  Change change{decision.plan, "re-planned: " + decision.reason, ""};
  change.line = fmt::format("re-planned: {} ({})",
                            planner::in_words(planner_.measured(), decision.plan, decision.predicted_ms),
                            decision.reason);
  change.plan.micro_batch = micro_batch_;
  return change;
}

}  // namespace paceline::rpc
