// A Controller in an attempt's time: it stamps facts with the job's time, has the orders carried out, and
// puts the records into the outbox. If servers may know a commit early, some facts wait (foresight.h). Pure.
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
#include "paceline/decisions/coordinator/foresight.h"

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

  // Is told about facts that had to wait (foresight.h).
  struct Waiting {
    // The Controller did not take a gradient of this replica.
    std::function<void(ReplicaId, const absl::Status&)> refused;
    // No commit is expected at this moment: the servers have version(), once they have carried out their orders.
    std::function<void()> settled;
  };
  // Has the servers know each commit as early as it is certain. `tell`: tells an order to every server that is here.
  // Requires: no fact was taken.
  void foresee(std::size_t servers, std::function<void(ServerOrder)> tell, Waiting waiting);

  // Takes the fact, now or when it may be taken. Errors: those of Controller::handle.
  absl::Status take(SteadyTime at, decltype(control::Fact::what) what);
  // Tells the servers once all facts that were taken before have been handled. False if that is now, and nobody is told.
  bool tell_later(const UnmapGradient& order);
  // Whether version() is the newest that a server can have. If not, the servers are asked not to make the next one, and
  // Waiting::settled comes later.
  bool settle();
  bool awaits_answers() const { return foresight_ && foresight_->awaits_answers(); }
  // Whether version() is not, because a server used a gradient before its worker said that it was ready.
  std::optional<ReplicaId> lost() const { return foresight_ ? foresight_->lost() : std::nullopt; }
  // See Foresight.
  void answered(SteadyTime at, ServerId server, Version version, bool made);
  std::optional<Expect> back(SteadyTime at, ServerId server, Version version, bool begun);
  // Takes no fact from now on, not even the timer's.
  void end() { ended_ = true; }

  // The job's time at `at`.
  Time time(SteadyTime at) const;
  bool started() const { return started_.has_value(); }
  bool finished() const { return controller_.finished(); }
  Version version() const { return controller_.version(); }
  // The newest version that a server can have.
  Version newest() const { return foresight_ ? foresight_->newest(version()) : version(); }
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
  absl::Status handle(SteadyTime at, decltype(control::Fact::what) what);
  // Takes what was held, as far as it may be taken, and lets the servers know the next commit.
  void go_on(SteadyTime at);
  void take_held(SteadyTime at, Foresight::Held held);
  void carry_out(const control::Order& order, std::span<const control::Order> later);

  control::Controller controller_;
  Outbox& out_;
  const CarryOut carry_out_;
  const bool records_first_;
  std::optional<Foresight> foresight_;  // set by foresee()
  Waiting waiting_;
  Duration elapsed_before_{0};
  std::optional<SteadyTime> started_;
  bool ended_ = false;
};

}  // namespace paceline::coordinator
