#include "paceline/control/replanner.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::control {

namespace {

// No trial: what a batch takes beside computing is different on every host, and would be blamed on the plan.
constexpr std::int64_t kTrialBatches = 0;

double in_ms(Duration duration) { return to_seconds(duration) * 1e3; }

bool changes_replicas(planner::DecisionKind kind) {
  return kind != planner::DecisionKind::kKeep && kind != planner::DecisionKind::kData;
}

// A device that the plan does without counts as news when it comes: the plan may be from a time without it.
void expect_no_others(planner::Cluster& cluster, const planner::Plan& plan) {
  for (planner::Device& device : cluster.devices) device.present = false;
  for (const planner::PlannedReplica& replica : plan.replicas) {
    for (const std::int32_t n : replica.devices) cluster.devices[static_cast<std::size_t>(n)].present = true;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replanner>> Replanner::create(ReplannerOptions options) {
  planner::Problem& problem = options.problem;
  problem.batch = 0;
  for (const planner::PlannedReplica& replica : options.plan.replicas) problem.batch += replica.samples;
  problem.micro_batches = {std::min(options.plan.micro_batch, problem.batch)};
  planner::Plan plan = options.plan;
  plan.micro_batch = problem.micro_batches.front();
  planner::OnlineOptions online;
  online.seed = options.seed;
  online.trial = kTrialBatches;
  online.migration_ms = options.migration_ms;
  online.v = options.v;
  PACELINE_RETURN_IF_ERROR(planner::CostModel(problem).check(plan));
  expect_no_others(problem.cluster, plan);
  PACELINE_ASSIGN_OR_RETURN(auto planner, planner::OnlinePlanner::from(problem, online, plan));
  planner::QueueState queues = planner.queues();
  for (double& length : queues.lengths) length = options.queue;
  planner.restore(queues);
  return std::unique_ptr<Replanner>(new Replanner(std::move(planner), options));
}

PlanAdopted Replanner::first(Time at) const {
  planner::Plan plan = planner_.current();
  plan.micro_batch = micro_batch_;
  return {at, plan, planner_.predicted_ms(), "the run starts with it"};
}

void Replanner::worked(const planner::PlannedReplica& replica, std::size_t stage, std::int64_t samples,
                       Duration took) {
  const std::int32_t device = replica.devices[stage];
  work_.push_back({device, samples, took});
  if (stage == 0) samples_ += samples;
  batch_.stages.push_back({.device = device,
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
  std::erase(batch_.left, static_cast<std::int32_t>(device));
  batch_.joined.push_back(static_cast<std::int32_t>(device));
}

void Replanner::left(std::size_t device) {
  std::erase(batch_.joined, static_cast<std::int32_t>(device));
  batch_.left.push_back(static_cast<std::int32_t>(device));
}

BatchDone Replanner::measured(Time at) const {
  return {.at = at,
          .predicted_ms = planner_.predicted_ms(),
          .measured_ms = in_ms(at - *began_),
          .regular = !changed_ && samples_ == planner_.measured().batch,
          .work = work_};
}

absl::StatusOr<Replanner::Ended> Replanner::end_batch(Time at) {
  Ended ended;
  if (began_) {
    ended.batch = measured(at);
    batch_.batch_ms = ended.batch->measured_ms;
    if (!changed_) batch_.sync_ms = batch_.batch_ms - in_ms(slowest_);
  }
  const auto spending = ended.batch ? spent(ended.batch->measured_ms) : std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(ended.change, decide(at));
  if (spending) {
    ended.batch->spending = spending;
    ended.batch->spending->queue = planner_.queues().lengths.front();
  }
  return ended;
}

absl::StatusOr<Replanner::Ended> Replanner::give_up_batch(Time at) {
  Ended ended;
  PACELINE_ASSIGN_OR_RETURN(ended.change, decide(at));
  return ended;
}

std::vector<planner::PriceObservation> Replanner::prices_at(Time at) const {
  const double now_s = to_seconds(at.time_since_epoch());
  std::vector<planner::PriceObservation> prices;
  for (const PriceChange& change : prices_) {
    double price = planner_.initial().cluster.devices[static_cast<std::size_t>(change.device)].price_per_hour;
    for (const PriceChange& other : prices_) {
      if (other.device == change.device && other.at_s <= now_s && now_s < other.until_s)
        price = other.per_hour;
    }
    prices.push_back({change.device, price});
  }
  return prices;
}

std::optional<Spending> Replanner::spent(double batch_ms) {
  planner::Problem problem = planner_.measured();
  if (problem.budgets.empty()) return std::nullopt;
  for (const planner::PriceObservation& price : prices_at(*began_))
    problem.cluster.devices[static_cast<std::size_t>(price.device)].price_per_hour = price.price_per_hour;
  const planner::Budget& budget = problem.budgets.front();
  const planner::Costs costs = planner::CostModel(problem).costs(planner_.current(), batch_ms);
  // Of a plan that stays; else the planner does so itself.
  if (!plans_anew_) {
    planner::QueueState queues = planner_.queues();
    add_batch(queues, problem.budgets, costs, batch_ms);
    planner_.restore(queues);
  }
  return Spending{costs[budget.index()], budget.allowed(batch_ms), 0};
}

absl::StatusOr<std::optional<Replanner::Change>> Replanner::decide(Time at) {
  batch_.prices = prices_at(at);
  const planner::BatchObservation batch = std::exchange(batch_, {});
  work_.clear();
  finished_.clear();
  samples_ = 0;
  slowest_ = Duration::zero();
  began_ = at;
  if (!plans_anew_) return std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(const planner::Decision decision, planner_.after_batch(batch));
  changed_ = changes_replicas(decision.kind);
  if (!changed_) return std::nullopt;
  Change change{{at, decision.plan, decision.predicted_ms, decision.reason}, ""};
  change.line = fmt::format("re-planned: {} ({})",
                            planner::in_words(planner_.measured(), decision.plan, decision.predicted_ms),
                            decision.reason);
  change.adopted.plan.micro_batch = micro_batch_;
  return change;
}

}  // namespace paceline::control
