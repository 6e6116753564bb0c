// A Controller in an attempt's time: it stamps facts with the job's time, has the orders carried out, and
// puts the records into the outbox. Pure.
//
// Invariant: the orders of a fact are carried out before the next fact is taken, and nothing is taken
// after the end. If records come first, no commit is carried out before it is recorded.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include <absl/status/status.h>

#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/coordinator/actions.h"

namespace paceline::coordinator {

class TimedController {
 public:
  // The replicas that later orders of the same fact release; only with a commit.
  using ReleasedNext = std::set<ReplicaId>;
  using CarryOut = std::function<void(const control::Order&, const ReleasedNext&)>;

  // `carry_out`: called within take() for each order except WakeAt and SearchPlan. `records_first`: commits
  // wait for the run recorder. The outbox outlives this.
  TimedController(const control::ControllerConfig& config, std::unique_ptr<policy::SyncPolicy> policy,
                  Outbox& out, CarryOut carry_out, bool records_first = false,
                  std::unique_ptr<control::Replanner> replanner = nullptr);

  // Called before the first fact: the job's time goes on from `elapsed`. Errors: those of
  // Controller::restore.
  absl::Status restore(const control::ControllerState& state, Duration elapsed);

  // Errors: those of Controller::handle.
  absl::Status take(SteadyTime at, decltype(control::Fact::what) what);
  // Takes no fact from now on, not even the timer's.
  void end() { ended_ = true; }

  // The job's time at `at`.
  Time time(SteadyTime at) const;
  bool started() const { return started_.has_value(); }
  bool finished() const { return controller_.finished(); }
  Version version() const { return controller_.version(); }
  policy::Bounds bounds() const { return controller_.bounds(); }
  bool could_be_larger(ReplicaId replica, std::int64_t least) const {
    return controller_.could_be_larger(replica, least);
  }
  bool follows_a_plan() const { return controller_.plan().has_value(); }
  bool plans_anew() const { return controller_.plans_anew(); }
  bool searching() const { return controller_.searching(); }
  bool hears_of_completion() const { return controller_.hears_of_completion(); }
  control::ControllerState save() const { return controller_.save(); }
  // See Controller.
  std::vector<control::ControllerState> take_states() { return controller_.take_states(); }

 private:
  void carry_out(const control::Order& order, std::span<const control::Order> later);

  control::Controller controller_;
  Outbox& out_;
  const CarryOut carry_out_;
  const bool records_first_;
  Duration elapsed_before_{0};
  std::optional<SteadyTime> started_;
  bool ended_ = false;
};

}  // namespace paceline::coordinator
