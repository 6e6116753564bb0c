#include "paceline/decisions/planner/online_planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/migration.h"

namespace paceline::planner {

namespace {

constexpr std::size_t kMostListed = 12;
constexpr double kTrialSlack = 1.02;
constexpr std::int64_t kBannedBatches = 100;

bool same_groups(const Plan& a, const Plan& b) {
  return a.replicas.size() == b.replicas.size() &&
         std::equal(a.replicas.begin(), a.replicas.end(), b.replicas.begin(), same_pipeline);
}

}  // namespace

namespace {

// A replica without samples gets one of the replica with the most. True if there was such a replica.
bool let_all_compute(Plan& plan) {
  bool any = false;
  for (PlannedReplica& idle : plan.replicas) {
    if (idle.samples > 0) continue;
    PlannedReplica& busiest =
        *std::max_element(plan.replicas.begin(), plan.replicas.end(),
                          [](const auto& a, const auto& b) { return a.samples < b.samples; });
    if (busiest.samples < 2) continue;
    --busiest.samples;
    ++idle.samples;
    any = true;
  }
  return any;
}

}  // namespace

OnlinePlanner::OnlinePlanner(Problem problem, const OnlineOptions& options, const Planned& planned)
    : options_(options),
      measurements_(std::move(problem), options.alike_links),
      queues_(empty_queues(measured().budgets, planned.forecast.batch_ms)),
      plan_(planned.found.plan),
      predicted_ms_(planned.forecast.batch_ms),
      looked_ms_(predicted_ms_),
      reference_(measured().cluster.devices.size(), 1),
      holds_(measured().cluster.devices.size(), HoldTime(static_cast<double>(options.groups_every))),
      plan_hold_(static_cast<double>(options.groups_every)) {
  remember(plan_);
  for (const BaselineResult& baseline : planned.baselines) {
    if (baseline.plan.ok()) remember(*baseline.plan);
  }
}

absl::StatusOr<OnlinePlanner> OnlinePlanner::create(Problem problem, const OnlineOptions& options) {
  // Budgets are of the long run: the first batch knows none.
  Problem free = problem;
  free.budgets.clear();
  SearchOptions search_options;
  search_options.seed = options.seed;
  PACELINE_ASSIGN_OR_RETURN(const Planned planned, make_plan(free, search_options));
  return OnlinePlanner(std::move(problem), options, planned);
}

absl::StatusOr<OnlinePlanner> OnlinePlanner::from(Problem problem, const OnlineOptions& options,
                                                  const Plan& plan) {
  Planned planned;
  {
    const CostModel model(problem);
    PACELINE_RETURN_IF_ERROR(model.check(plan));
    planned.found.plan = plan;
    planned.forecast = model.forecast(plan);
  }
  return OnlinePlanner(std::move(problem), options, planned);
}

void OnlinePlanner::notice_membership(const BatchObservation& observation) {
  for (const std::int32_t n : measurements_.apply_membership(observation)) {
    holds_[static_cast<std::size_t>(n)].changed(batch_);
    groups_due_ = true;
  }
}

void OnlinePlanner::notice_drift(const Evaluator& evaluator) {
  for (std::size_t n = 0; n < reference_.size(); ++n) {
    const double slowness = measurements_.slowness(static_cast<std::int32_t>(n));
    if (std::abs(std::log(slowness / reference_[n])) <= std::log1p(options_.drift)) continue;
    reference_[n] = slowness;
    holds_[n].changed(batch_);
    cuts_due_ = true;
  }
  // Whatever it is, a device, a link or the servers: the plan in use is not what it was when other groups
  // were looked at.
  Plan now = plan_;
  const Evaluation evaluation = evaluator.assign(now, true);
  if (!evaluation.possible()) return;
  if (std::abs(std::log(evaluation.batch_ms / looked_ms_)) <= std::log1p(options_.drift)) return;
  looked_ms_ = evaluation.batch_ms;
  groups_due_ = true;
}

void OnlinePlanner::count_batch(const CostModel& model, const BatchObservation& observation) {
  ++batch_;
  if (!(observation.batch_ms > 0)) return;
  add_batch(queues_, measured().budgets, model.costs(plan_, observation.batch_ms), observation.batch_ms);
}

void OnlinePlanner::observe(const BatchObservation& observation) {
  count_batch(CostModel(measured()), observation);
  measurements_.add(observation, plan_);
  lowered_memory_ |= measurements_.lower_memory(observation, plan_);
  notice_membership(observation);
  if (!usable(plan_)) {
    // No batch can be done with it, so nothing is weighed up.
    trial_.reset();
    groups_due_ = true;
    return;
  }
  const CostModel model(measured());
  notice_drift(Evaluator(model, goal()));
  if (!trial_ || std::exchange(trial_->migrating, false)) return;
  trial_->measured_ms += observation.batch_ms;
  ++trial_->counted;
  --trial_->left;
}

void OnlinePlanner::limit_memory(std::int32_t device, std::int64_t bytes) {
  measurements_.limit_memory(device, bytes);
  lowered_memory_ = true;
}

std::optional<PlanSearch> OnlinePlanner::due_search() {
  if (trial_) return std::nullopt;
  const std::int64_t groups_every = measured().budgets.empty()
                                        ? options_.groups_every
                                        : std::min(options_.groups_every, options_.cuts_every);
  const bool groups = groups_due_ || batch_ - groups_at_ >= groups_every;
  if (!groups && !cuts_due_ && batch_ - cuts_at_ < options_.cuts_every) return std::nullopt;
  ++looks_;
  cuts_at_ = batch_;
  cuts_due_ = groups_due_ = false;
  PlanSearch look{measured(), goal(), {}, {}};
  if (usable(plan_)) look.starts.push_back(plan_);
  if (groups) {
    groups_at_ = batch_;
    for (const Plan& plan : list_) {
      if (usable(plan)) look.starts.push_back(plan);
    }
  }
  look.options.seed = mix_seed({options_.seed, static_cast<std::uint64_t>(batch_)});
  look.options.moves = options_.search_moves;
  look.options.scope = groups ? MoveScope::kGroups : MoveScope::kCuts;
  return look;
}

void OnlinePlanner::found(const std::optional<Plan>& plan) {
  if (plan) remember(*plan);
}

Decision OnlinePlanner::decide() {
  const CostModel model(measured());
  const Evaluator evaluator(model, goal());
  if (!usable(plan_)) return replace_unusable(evaluator);
  if (!trial_) return choose(evaluator);
  if (auto decision = end_trial(evaluator)) return *std::move(decision);
  return assign_data(evaluator, "a new plan is on trial");
}

void OnlinePlanner::decide_data() {
  if (!usable(plan_)) return;
  const CostModel model(measured());
  assign_data(Evaluator(model, goal()), "");
}

absl::StatusOr<Decision> OnlinePlanner::after_batch(const BatchObservation& observation) {
  observe(observation);
  if (const auto look = due_search()) {
    PACELINE_ASSIGN_OR_RETURN(const std::optional<Plan> plan, run(*look));
    found(plan);
  }
  return decide();
}

Decision OnlinePlanner::replace_unusable(const Evaluator& evaluator) {
  const Plan* best = nullptr;
  Evaluation best_evaluation;
  for (const Plan& plan : list_) {
    Plan assigned = plan;
    const Evaluation one = usable(plan) ? evaluator.assign(assigned) : Evaluation{};
    if (one < best_evaluation) best = &plan, best_evaluation = one;
  }
  if (best == nullptr)
    return {DecisionKind::kKeep, plan_, predicted_ms_, 0, "no plan without it is known yet"};
  return adopt(
      evaluator, *best, DecisionKind::kGroups, false,
      all_here(plan_) ? "a device has less memory than its stage needs" : "a device of the plan has left");
}

void OnlinePlanner::remember(const Plan& plan) {
  std::erase_if(list_, [&](const Plan& other) { return same_stages(plan, other); });
  if (list_.size() == kMostListed) list_.erase(list_.begin());
  list_.push_back(plan);
}

bool OnlinePlanner::banned(const Plan& plan) const {
  return std::any_of(banned_.begin(), banned_.end(),
                     [&](const Banned& one) { return batch_ < one.until && same_stages(one.plan, plan); });
}

bool OnlinePlanner::usable(const Plan& plan) const {
  if (!all_here(plan)) return false;
  if (!lowered_memory_) return true;
  const CostModel model(measured());
  Plan assigned = plan;
  return Evaluator(model, goal()).assign(assigned, true).possible();
}

bool OnlinePlanner::all_here(const Plan& plan) const {
  for (const PlannedReplica& replica : plan.replicas) {
    for (const std::int32_t n : replica.devices) {
      if (!measured().cluster.devices[static_cast<std::size_t>(n)].present) return false;
    }
  }
  return true;
}

Decision OnlinePlanner::choose(const Evaluator& evaluator) {
  Plan now = plan_;
  const Evaluation current = evaluator.assign(now, true);
  Plan best;
  Evaluation best_evaluation;
  for (const Plan& plan : list_) {
    if (!usable(plan) || banned(plan) || same_stages(plan, plan_)) continue;
    Plan assigned = plan;
    const Evaluation one = evaluator.assign(assigned);
    if (one < best_evaluation) best = std::move(assigned), best_evaluation = one;
  }
  if (!best_evaluation.possible()) return assign_data(evaluator, "no other plan is known");
  // The gain in milliseconds of a batch; V turns the weight of costs into time.
  const double gain_ms = current.possible()
                             ? (current.score - best_evaluation.score) * queues_.reference_ms / options_.v
                             : Evaluation::kInfinite;
  const double cost_ms = migration_ms(measured(), plan_, best, options_.migration_ms), hold = expected_hold();
  if (current.possible() && gain_ms <= options_.least_gain * current.batch_ms)
    return assign_data(evaluator, "no better plan is known");
  if (gain_ms * hold <= cost_ms) {
    return assign_data(
        evaluator, fmt::format("a plan better by {:.3g} ms is not worth {:.4g} ms of migrating, as states "
                               "last about {:.0f} batches",
                               gain_ms, cost_ms, hold));
  }
  const DecisionKind kind = same_groups(plan_, best) ? DecisionKind::kCuts : DecisionKind::kGroups;
  return adopt(evaluator, std::move(best), kind, options_.trial > 0,
               fmt::format("better by {:.3g} ms a batch, for about {:.0f} batches; migrating costs {:.4g} ms",
                           gain_ms, hold, cost_ms));
}

std::optional<Decision> OnlinePlanner::end_trial(const Evaluator& evaluator) {
  Trial& trial = *trial_;
  if (trial.left > 0) return std::nullopt;
  const double mean_ms = trial.measured_ms / static_cast<double>(trial.counted);
  Plan old = std::move(trial.old);
  trial_.reset();
  if (!usable(old)) return std::nullopt;
  const Evaluation before = evaluator.assign(old);
  const double measured = evaluator.score(mean_ms, evaluator.model().costs(plan_, mean_ms));
  if (!before.possible() || measured <= before.score * kTrialSlack) return std::nullopt;
  banned_.push_back({plan_, batch_ + kBannedBatches});
  std::erase_if(banned_, [&](const Banned& one) { return batch_ >= one.until; });
  return adopt(evaluator, std::move(old), DecisionKind::kRollBack, false,
               fmt::format("the plan on trial took {:.4g} ms a batch; the old one would take {:.4g}", mean_ms,
                           before.batch_ms));
}

Decision OnlinePlanner::adopt(const Evaluator& evaluator, Plan plan, DecisionKind kind, bool on_trial,
                              std::string reason) {
  Decision decision{
      kind, {}, 0, migration_ms(measured(), plan_, plan, options_.migration_ms), std::move(reason)};
  if (on_trial) trial_ = Trial{plan_, options_.trial};
  ++migrations_;
  adopted_at_ = batch_;
  if (kind != DecisionKind::kRollBack) plan_hold_.changed(batch_);
  predicted_ms_ = evaluator.assign(plan).batch_ms;
  if (groups_at_ == batch_) looked_ms_ = predicted_ms_;
  plan_ = std::move(plan);
  remember(plan_);
  decision.plan = plan_;
  decision.predicted_ms = predicted_ms_;
  return decision;
}

Decision OnlinePlanner::assign_data(const Evaluator& evaluator, std::string otherwise) {
  Plan assigned = plan_;
  Evaluation evaluation = evaluator.assign(assigned, true);
  if (evaluation.possible() && options_.all_compute && let_all_compute(assigned))
    evaluation = evaluator.weigh(assigned);
  if (evaluation.possible()) {
    predicted_ms_ = evaluation.batch_ms;
  } else {
    assigned = plan_;
  }
  const bool changed = assigned != plan_;
  plan_ = std::move(assigned);
  return {changed ? DecisionKind::kData : DecisionKind::kKeep, plan_, predicted_ms_, 0, std::move(otherwise)};
}

double OnlinePlanner::expected_hold() const {
  double least = std::min(static_cast<double>(options_.groups_every), plan_hold_.expected(batch_));
  for (const HoldTime& hold : holds_) {
    if (hold.changes() > 0 && hold.since() >= adopted_at_) least = std::min(least, hold.expected(batch_));
  }
  return least;
}

}  // namespace paceline::planner
