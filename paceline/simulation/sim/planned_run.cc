#include "paceline/simulation/sim/planned_run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/migration.h"
#include "paceline/simulation/sim/cluster_trace.h"

namespace paceline::sim {

namespace {

using planner::BatchObservation;
using planner::Plan;
using planner::Problem;

// The planning part: gives the next batch's plan from the observations of the last.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual absl::StatusOr<Plan> after_batch(const BatchObservation& seen) = 0;
  virtual void finish(PlannedRun&) const {}
  const Plan& plan() const { return plan_; }
  double predicted_ms() const { return predicted_ms_; }

 protected:
  Plan plan_;
  double predicted_ms_ = 0;
};

planner::OnlineOptions options_of(const config::ClusterFile& file) {
  const config::PlannerConfig config = file.planner.value_or(config::PlannerConfig{});
  planner::OnlineOptions options;
  options.v = config.v;
  options.cuts_every = config.cuts_every;
  options.groups_every = config.groups_every;
  options.trial = config.trial;
  options.migration_ms = config.migration_ms;
  options.seed = file.seed;
  return options;
}

class Ours final : public Driver {
 public:
  explicit Ours(planner::OnlinePlanner planner) : planner_(std::move(planner)) {
    plan_ = planner_.current();
    predicted_ms_ = planner_.predicted_ms();
  }
  absl::StatusOr<Plan> after_batch(const BatchObservation& seen) override {
    PACELINE_ASSIGN_OR_RETURN(const planner::Decision decision, planner_.after_batch(seen));
    plan_ = decision.plan;
    predicted_ms_ = decision.predicted_ms;
    return plan_;
  }
  void finish(PlannedRun& run) const override { run.replans = planner_.looks(); }

 private:
  planner::OnlinePlanner planner_;
};

using Method = std::function<absl::StatusOr<Plan>(const Problem&)>;

// Plans by its method; plans again when a device of the plan has left, and, if it can, when a device has
// joined.
class Baseline final : public Driver {
 public:
  struct Ways {
    bool takes_joiners = false;
    bool balances = false;  // assigns the data anew for each batch
  };
  static absl::StatusOr<std::unique_ptr<Driver>> create(Method method, Ways ways, Problem problem) {
    auto driver = std::make_unique<Baseline>(std::move(method), ways, std::move(problem));
    PACELINE_RETURN_IF_ERROR(driver->start());
    return driver;
  }
  Baseline(Method method, Ways ways, Problem problem)
      : method_(std::move(method)), ways_(ways), first_(problem), measured_(std::move(problem)) {}

  absl::StatusOr<Plan> after_batch(const BatchObservation& seen) override {
    measured_.add(seen, plan_);
    bool again = false;
    for (const std::int32_t n : measured_.apply_membership(seen)) {
      const bool present = measured_.problem().cluster.devices[static_cast<std::size_t>(n)].present;
      first_.cluster.devices[static_cast<std::size_t>(n)].present = present;
      again = again || (present ? ways_.takes_joiners : uses(n));
    }
    if (again) {
      ++restarts_;
      PACELINE_RETURN_IF_ERROR(start());
    }
    if (ways_.balances) balance();
    return plan_;
  }
  void finish(PlannedRun& run) const override { run.replans = restarts_; }

 private:
  absl::Status start() {
    PACELINE_ASSIGN_OR_RETURN(plan_, method_(first_));
    predicted_ms_ = planner::CostModel(first_).forecast(plan_).batch_ms;
    return absl::OkStatus();
  }
  bool uses(std::int32_t n) const {
    return std::any_of(
        plan_.replicas.begin(), plan_.replicas.end(), [&](const planner::PlannedReplica& replica) {
          return std::find(replica.devices.begin(), replica.devices.end(), n) != replica.devices.end();
        });
  }
  void balance() {
    Problem free = measured_.problem();
    free.budgets.clear();
    const planner::CostModel model(free);
    const auto evaluation = planner::Evaluator(model, planner::Goal::within_budgets()).assign(plan_, true);
    predicted_ms_ = evaluation.batch_ms;
  }

  Method method_;
  Ways ways_;
  Problem first_;  // the knowledge at the start, with the devices that are present now
  planner::Measurements measured_;
  std::int64_t restarts_ = 0;
};

Method baseline_method(const std::string& name) {
  return [name](const Problem& problem) -> absl::StatusOr<Plan> {
    const planner::CostModel model(problem);
    for (planner::Baseline& one : planner::baselines(model)) {
      if (one.name == name) return std::move(one.plan);
    }
    return absl::NotFoundError("no baseline " + name);
  };
}

absl::StatusOr<Plan> frozen_plan(const Problem& problem, std::uint64_t seed) {
  Problem free = problem;
  free.budgets.clear();
  PACELINE_ASSIGN_OR_RETURN(const planner::Planned planned, planner::make_plan(free, {.seed = seed}));
  return planned.found.plan;
}

// Drives to the end of the trace, or as far as there is a plan.
PlannedRun drive(const config::ClusterFile& file, const std::string& name, Driver& driver,
                 double reference_ms) {
  PlannedRun run;
  run.name = name;
  ClusterTrace trace(file);
  const double fixed_ms = options_of(file).migration_ms;
  planner::QueueState queues = planner::empty_queues(file.problem.budgets, reference_ms);
  run.queue_max.assign(file.problem.budgets.size(), 0);
  double migration_ms = 0, error = 0;
  std::int64_t errors = 0;
  BatchObservation seen;
  trace.advance(0, seen);  // every method knows which devices are missing at the start
  for (; run.batches < file.batches; ++run.batches) {
    seen = {};
    const Plan before = driver.plan();
    const double ms = trace.run(run.batches, before, seen);
    seen.batch_ms = ms + migration_ms;
    if (migration_ms == 0) error += std::abs(driver.predicted_ms() - ms) / ms, ++errors;
    const planner::Costs costs = planner::CostModel(trace.now()).costs(before, seen.batch_ms);
    planner::add_batch(queues, file.problem.budgets, costs, seen.batch_ms);
    for (std::size_t k = 0; k < planner::kCostKinds; ++k) run.costs[k] += costs[k];
    for (std::size_t k = 0; k < queues.lengths.size(); ++k)
      run.queue_max[k] = std::max(run.queue_max[k], queues.lengths[k]);
    run.elapsed_ms += seen.batch_ms;
    trace.advance(run.elapsed_ms, seen);
    const absl::StatusOr<Plan> next = driver.after_batch(seen);
    if (!next.ok()) {
      run.ended = next.status();
      ++run.batches;  // the one that is counted above
      break;
    }
    migration_ms = planner::migration_ms(trace.now(), before, *next, fixed_ms);
    if (migration_ms > 0) ++run.migrations;
  }
  run.predicted_error = errors == 0 ? 0 : error / static_cast<double>(errors);
  driver.finish(run);
  return run;
}

}  // namespace

absl::StatusOr<std::vector<PlannedRun>> run_planned(const config::ClusterFile& file) {
  const Problem problem = initial_problem(file);
  PACELINE_ASSIGN_OR_RETURN(planner::OnlinePlanner ours,
                            planner::OnlinePlanner::create(problem, options_of(file)));
  const double reference_ms = ours.queues().reference_ms;
  std::vector<PlannedRun> runs;
  Ours driver(std::move(ours));
  runs.push_back(drive(file, "paceline", driver, reference_ms));
  const auto add = [&](const std::string& name, Method method, Baseline::Ways ways) {
    auto baseline = Baseline::create(std::move(method), ways, problem);
    if (baseline.ok()) {
      runs.push_back(drive(file, name, **baseline, reference_ms));
    } else {
      runs.emplace_back().name = name;
      runs.back().ended = baseline.status();
    }
  };
  add("bsp", baseline_method("bsp"), {.takes_joiners = true});
  add("lb-bsp", baseline_method("lb-bsp"), {.takes_joiners = true, .balances = true});
  for (const char* name : {"gpipe", "gpipe-work", "pipedream", "hetpipe"})
    add(name, baseline_method(name), {});
  add("frozen", [&](const Problem& first) { return frozen_plan(first, file.seed); }, {});
  return runs;
}

}  // namespace paceline::sim
