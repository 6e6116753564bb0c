#include "paceline/decisions/control/replanner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::control {

namespace {

// No trial: what a batch takes beside computing is different on every host, and would be blamed on the plan.
constexpr std::int64_t kTrialBatches = 0;
// Links that are in use are measured beside everything else that goes on, and others are remembered.
constexpr double kLeastGain = 0.05;

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

PlanSearched searched(const SearchPlan& order) {
  auto found = planner::run(*order.look);
  if (!found.ok()) return {std::nullopt, std::string(found.status().message())};
  return {*std::move(found), ""};
}

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
  online.all_compute = true;
  online.alike_links = true;
  online.least_gain = kLeastGain;
  PACELINE_RETURN_IF_ERROR(planner::CostModel(problem).check(plan));
  expect_no_others(problem.cluster, plan);
  PACELINE_ASSIGN_OR_RETURN(auto planner, planner::OnlinePlanner::from(problem, online, plan));
  planner::QueueState queues = planner.queues();
  for (double& length : queues.lengths) length = options.queue;
  planner.restore(queues);
  return std::unique_ptr<Replanner>(new Replanner(std::move(planner), options));
}

planner::Plan Replanner::plan() const {
  planner::Plan plan = planner_.current();
  plan.micro_batch = micro_batch_;
  return plan;
}

PlanAdopted Replanner::first(Time at) const {
  return {at, plan(), planner_.predicted_ms(), "the run starts with it"};
}

absl::Status Replanner::joined(const ReplicaJoined& fact) {
  if (!fact.place) return absl::OkStatus();
  const auto places = static_cast<std::int32_t>(planner_.current().replicas.size());
  if (*fact.place < 0 || *fact.place >= places) {
    return absl::InvalidArgumentError(fmt::format("replica {} joined in place {} of a plan that has {}",
                                                  fact.replica, *fact.place, places));
  }
  places_[fact.replica] = {.index = static_cast<std::size_t>(*fact.place)};
  return absl::OkStatus();
}

const planner::PlannedReplica* Replanner::planned(ReplicaId replica) const {
  const auto found = places_.find(replica);
  if (found == places_.end() || found->second.outdated) return nullptr;
  return &planner_.current().replicas[found->second.index];
}

bool Replanner::left(ReplicaId replica) {
  const bool was_here = places_.erase(replica) > 0;
  finished_.erase(replica);
  speeds_.forget(replica);
  return was_here && places_.empty() && news_of_devices();
}

absl::Status Replanner::check(const ReplicaReady& fact) const {
  const planner::PlannedReplica* replica = planned(fact.replica);
  if (replica == nullptr) return absl::OkStatus();
  const std::size_t devices = replica->devices.size();
  if (fact.worked.size() == devices) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("replica {} says what {} devices worked, and has {}",
                                                fact.replica, fact.worked.size(), devices));
}

void Replanner::finished(const ReplicaReady& fact, std::int64_t samples) {
  const planner::PlannedReplica* found = planned(fact.replica);
  if (found == nullptr) return;
  const planner::PlannedReplica& replica = *found;
  const std::int64_t micros = (samples + micro_batch_ - 1) / micro_batch_;
  const double all_ms = in_ms(std::accumulate(fact.worked.begin(), fact.worked.end(), Duration::zero()));
  if (all_ms > 0) speeds_.finished(fact.replica, samples, fact.weight, all_ms);
  for (const planner::PlannedStage& stage : planner::stages_of(replica, planner_.measured().layers())) {
    for (std::size_t turn = 0; turn < stage.width; ++turn) {
      const std::int32_t device = replica.devices[stage.first + turn];
      const Duration worked = fact.worked[stage.first + turn];
      const std::int64_t own = samples_in_turn(samples, micro_batch_, turn, stage.width);
      work_.push_back({device, own, worked});
      if (own == 0) continue;
      batch_.stages.push_back({.device = device,
                               .begin = stage.begin,
                               .end = stage.end,
                               .samples = own,
                               .micro_batches = in_turn(micros, turn, stage.width),
                               .compute_ms = speeds_.usual_ms(samples, fact.weight, in_ms(worked))});
    }
  }
  samples_ += samples;
  finished_.insert(fact.replica);
  // Waiting for weights is synchronizing.
  slowest_ = std::max(slowest_, fact.compute - fact.pulling);
}

absl::Status Replanner::check_device(std::int32_t device) const {
  const std::int32_t devices = planner_.measured().cluster.size();
  if (device >= 0 && device < devices) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("device {} of {} came or went", device, devices));
}

absl::Status Replanner::joined(const DeviceJoined& fact) {
  PACELINE_RETURN_IF_ERROR(check_device(fact.device));
  if (fact.memory_bytes < 0)
    return absl::InvalidArgumentError(fmt::format("device {} has {} bytes", fact.device, fact.memory_bytes));
  if (fact.memory_bytes > 0) planner_.limit_memory(fact.device, fact.memory_bytes);
  std::erase(batch_.left, fact.device);
  batch_.joined.push_back(fact.device);
  return absl::OkStatus();
}

absl::Status Replanner::left(const DeviceLeft& fact) {
  PACELINE_RETURN_IF_ERROR(check_device(fact.device));
  std::erase(batch_.joined, fact.device);
  batch_.left.push_back(fact.device);
  return absl::OkStatus();
}

absl::Status Replanner::out_of_memory(const DeviceOutOfMemory& fact) {
  PACELINE_RETURN_IF_ERROR(check_device(fact.device));
  if (fact.samples < 0) {
    return absl::InvalidArgumentError(
        fmt::format("device {} had no memory for {} samples", fact.device, fact.samples));
  }
  batch_.out_of_memory.push_back({fact.device, fact.samples});
  torn_ = true;
  return absl::OkStatus();
}

// All devices of a host share its links. To the planner a link is alike both ways: what it takes there and
// back is twice the mean of both.
absl::Status Replanner::measured(const LinkMeasured& fact) {
  if (fact.from == fact.to || fact.bytes < 1 || fact.took <= Duration::zero()) {
    return absl::InvalidArgumentError(fmt::format("{} bytes came from host {} to host {} in {} ns",
                                                  fact.bytes, fact.from, fact.to, fact.took.count()));
  }
  const std::vector<planner::Device>& devices = planner_.initial().cluster.devices;
  for (std::size_t from = 0; from < devices.size(); ++from) {
    for (std::size_t to = 0; to < devices.size(); ++to) {
      const HostPlace one(devices[from].host), other(devices[to].host);
      const bool between = (one == fact.from && other == fact.to) || (one == fact.to && other == fact.from);
      if (!between) continue;
      batch_.links.push_back({.from = static_cast<std::int32_t>(from),
                              .to = static_cast<std::int32_t>(to),
                              .bytes = static_cast<double>(fact.bytes),
                              .ms = in_ms(fact.took),
                              .shared = fact.shared});
    }
  }
  return absl::OkStatus();
}

BatchDone Replanner::measured(Time at) const {
  return {.at = at,
          .predicted_ms = planner_.predicted_ms(),
          .measured_ms = in_ms(at - *began_),
          .regular = !changed_ && samples_ == planner_.measured().batch,
          .work = work_};
}

void Replanner::end_batch(Time at, std::vector<Order>& orders) {
  std::optional<BatchDone> batch;
  if (began_) {
    batch = measured(at);
    batch_.batch_ms = batch->measured_ms;
    if (!changed_) batch_.sync_ms = batch_.batch_ms - in_ms(slowest_);
    batch->spending = spent(batch->measured_ms);
  }
  if (plans_anew_) {
    batch_.prices = prices_at(at);
    planner_.observe(batch_);
  }
  begin_batch(at);
  if (batch) {
    if (batch->spending) batch->spending->queue = planner_.queues().lengths.front();
    orders.emplace_back(*std::move(batch));
  }
  if (plans_anew_) look_or_decide(at, orders);
}

void Replanner::give_up_batch(Time at, std::vector<Order>& orders) {
  if (plans_anew_) {
    batch_.prices = prices_at(at);
    planner_.observe(batch_);
  }
  begin_batch(at);
  if (plans_anew_) look_or_decide(at, orders);
}

void Replanner::begin_batch(Time at) {
  batch_ = {};
  work_.clear();
  finished_.clear();
  samples_ = 0;
  slowest_ = Duration::zero();
  began_ = at;
  changed_ = false;
}

// While a search is under way the plan stays, as it would be weighed without what is about to be found; its
// data are decided for every batch.
void Replanner::look_or_decide(Time at, std::vector<Order>& orders) {
  if (searching_ || look(orders)) {
    planner_.decide_data();
  } else {
    decide(at, orders);
  }
}

std::vector<std::pair<ReplicaId, std::int64_t>> Replanner::data() const {
  std::vector<std::pair<ReplicaId, std::int64_t>> samples;
  if (!plans_anew_) return samples;
  for (const auto& [replica, place] : places_) {
    if (const planner::PlannedReplica* one = planned(replica)) samples.emplace_back(replica, one->samples);
  }
  return samples;
}

bool Replanner::look(std::vector<Order>& orders) {
  auto look = planner_.due_search();
  if (!look) return false;
  searching_ = true;
  orders.emplace_back(SearchPlan{std::make_shared<const planner::PlanSearch>(*std::move(look))});
  return true;
}

absl::Status Replanner::searched(Time at, const PlanSearched& fact, std::vector<Order>& orders) {
  if (!searching_) return absl::FailedPreconditionError("a plan is said to be found, and nobody searched");
  searching_ = false;
  planner_.found(fact.plan);
  // The plan found may need a device that has gone meanwhile, or miss one that has come: the end of this
  // batch tells the planner. If no replica is left to end it, it is over now.
  if (news_of_devices()) {
    if (nobody_is_here()) give_up_batch(at, orders);
    return absl::OkStatus();
  }
  // Something may have happened meanwhile that makes its result old.
  if (look(orders)) return absl::OkStatus();
  if (fact.impossible.empty()) {
    decide(at, orders);
  } else {
    orders.emplace_back(NoPlan{fact.impossible});
  }
  return absl::OkStatus();
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
  // Adds the batch to the queues if the plan stays; else the planner does so itself.
  if (!plans_anew_) {
    planner::QueueState queues = planner_.queues();
    add_batch(queues, problem.budgets, costs, batch_ms);
    planner_.restore(queues);
  }
  return Spending{costs[budget.index()], budget.allowed(batch_ms), 0};
}

void Replanner::decide(Time at, std::vector<Order>& orders) {
  const planner::Decision decision = planner_.decide();
  if (changes_replicas(decision.kind)) {
    for (auto& [replica, place] : places_) place.outdated = true;
  } else {
    if (!torn_) return;
    if (planner_.lacks_memory()) {  // the replica that left would only run out of memory again
      if (nobody_is_here()) orders.emplace_back(NoPlan{"no known plan fits into the memory of the devices"});
      return;
    }
  }
  torn_ = false;
  // The old replicas' stage times of this batch are of no use to judge the new plan by.
  batch_.stages.clear();
  const planner::BatchObservation kept = batch_;
  begin_batch(at);
  batch_ = kept;
  changed_ = true;
  PlanAdopted adopted{at, decision.plan, decision.predicted_ms, decision.reason};
  adopted.plan.micro_batch = micro_batch_;
  adopted.line = fmt::format("re-planned: {} ({})",
                             planner::in_words(planner_.measured(), decision.plan, decision.predicted_ms),
                             decision.reason);
  orders.emplace_back(std::move(adopted));
}

}  // namespace paceline::control
