// A cluster in virtual time: the world around a Controller, made of a model. It turns events into facts and
// carries orders out; like every host of a Controller it decides nothing itself. With Work it trains a real
// model, without it it only counts. One thread; as fast as the machine can.
//
// Invariant: the same model, configuration, policy and Work give the same facts and orders. An
// Observer watches every run; what it finds is a bug of ours.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/control/most_replicas.h"
#include "paceline/decisions/control/replanner.h"
#include "paceline/decisions/control/witnesses.h"
#include "paceline/simulation/sim/cluster_model.h"
#include "paceline/simulation/sim/event_queue.h"
#include "paceline/simulation/sim/loader.h"
#include "paceline/simulation/sim/network.h"
#include "paceline/simulation/sim/work.h"

namespace paceline::sim {

// The planning of a run whose places are those of a plan, in its order.
struct Replanning {
  std::unique_ptr<control::Replanner> replanner{};  // none: the run is not planned
  // number of the job's devices. All are present, also those that the plan does not use
  std::int32_t devices = 0;
  std::function<std::vector<PlaceModel>(const planner::Plan&)> places{};
  Duration migration{0};  // time until the replicas of another plan have joined
  std::function<void(const std::string&)> re_planned{};  // a line for a person
};

struct VirtualClusterOptions {
  std::vector<control::RunListener*> listeners{};  // outlive the cluster
  Work* work = nullptr;                            // the same; none: a simulation
  // Iterations after which the run stops, finished by all replicas together; 0: never. A replica that steps
  // by itself finishes one with each step.
  std::int64_t stop_after_iterations = 0;
  // The state from which the run goes on, and the time it took until then. Must fit the configuration.
  std::optional<control::ControllerState> start{};
  Duration elapsed{0};
  Replanning replanning{};
  // The most joins of a run, also of replicas that come back.
  std::int64_t most_replicas = control::kMostReplicas;
};

class VirtualCluster {
 public:
  // `config.start_replicas` is set here: no replica starts before all that are there from the start.
  VirtualCluster(ClusterModel model, control::ControllerConfig config,
                 std::unique_ptr<policy::SyncPolicy> policy, VirtualClusterOptions options);

  // The next event. Requires: not over. Errors: those of Work; FailedPrecondition when all replicas are gone
  // for good and the job is not done; OutOfRange after a hundred years, and if too many join. All end the run; look at broken()
  // first.
  absl::Status step();
  // The run has ended, and every commit is carried out.
  bool over() const { return finished_ && pending_.empty(); }
  absl::Status run_until_over();

  // Stops before the next event.
  void ask_stop(std::string why, control::FinishCause cause = control::FinishCause::kStopped) {
    stop_asked_ = {std::move(why), cause};
  }

  Time now() const { return now_; }
  const control::Controller& controller() const { return controller_; }
  const UpdateSums& updates() const { return network_.updates(); }
  // The first broken promise; nothing when all is well.
  const std::optional<std::string>& broken() const { return broken_; }

 private:
  struct Place {
    std::optional<ReplicaId> replica;  // the replica that holds the place now
    Port port;
    control::Release release{};
    Version base;
    Time asked{};  // when its release arrived
    Loader loader{};
    Time loaded{};    // when the samples of its release were loaded
    Time pulled{};    // when its weights had arrived, too
    Transfer push{};  // transfer of its latest gradient
    // counts the replicas that held the place: events of an earlier holder mean nothing
    std::uint32_t holder = 0;
    std::uint64_t failures = 0;
    std::vector<Duration> computed{};  // one for each stage, in the iteration under way
  };
  enum class Kind { kPull, kDone, kReady, kComplete, kTold, kChange, kFail, kRepair, kFormed, kLost, kWake };
  // Whether such an event, still to come, means that the run goes on: failures and timers do not count.
  static bool counts(Kind kind) { return kind != Kind::kFail && kind != Kind::kWake; }
  struct Event {
    Kind kind = Kind::kDone;
    std::int32_t place = 0;    // kChange: the number of the change; kTold: nothing
    std::uint32_t holder = 0;  // kLost: the replica's id
  };
  // A commit that is ordered and not complete.
  struct Pending {
    control::CommitRecord record;
    Time begun;  // when the servers began
    Time complete;
  };

  // Events.
  absl::Status handle(const Event& event);
  absl::Status pull(std::int32_t place);
  void done(std::int32_t place);
  absl::Status ready(std::int32_t place);
  absl::Status complete();
  void happen(std::int64_t place, Happening what);
  void fail(std::int32_t place);
  void join(std::int32_t place);
  void go(std::int32_t place, Duration until_heard, const std::string& why = "left");
  // The Controller hears of it, and the Work once no commit needs it any more.
  void left(ReplicaId replica, const std::string& why);
  void forget_gone();

  // Plans. A search takes no modelled time.
  void follow_plans();
  void change_plan(const control::PlanAdopted& adopted);

  bool in_groups() const {
    return model_.in_groups.value_or(controller_.reduction() == policy::Reduction::kInGroup);
  }

  // Orders.
  void give(decltype(control::Fact::what) what);
  void carry_out(const control::Order& order);
  void commit(const control::CommitRecord& record);
  // The time at which the gradients of a commit that is ordered now are all at the servers.
  Transfer push_together(const control::CommitRecord& record);
  void release(const control::Release& release);
  // Pulls for the replicas that one fact released on one version. If groups reduce among themselves, they
  // pull as a group.
  void pull_together();
  void start_pulled(std::int32_t place, const Transfer& transfer);
  void wake_at(Time at);

  Duration iteration_length(std::int32_t place);
  Duration pipeline_length(const PlaceModel& model, Place& place) const;
  void draw_failure(std::int32_t place);
  void at(Time time, Kind kind, std::int32_t place);
  bool outdated(const Event& event) const;
  absl::Status nothing_happens();
  Place* held_by(ReplicaId replica);

  ClusterModel model_;  // another plan adds places
  VirtualClusterOptions options_;
  control::Controller controller_;
  control::Witnesses witnesses_;
  Network network_;
  EventQueue<Event> events_;
  std::vector<Place> places_;
  std::int32_t first_of_plan_ = 0;               // the place of the plan's first replica
  std::optional<planner::Plan> plan_;            // the plan that the places follow; none: not planned
  std::optional<control::SearchPlan> search_;    // ordered by the fact under way
  std::optional<control::PlanAdopted> adopted_;  // ordered by the fact under way, too
  std::vector<std::vector<config::Slowdown>> slowdowns_;  // one for each place
  std::vector<std::int32_t> place_of_;                    // indexed by replica id
  std::deque<Pending> pending_;
  std::vector<ReplicaId> gone_;  // replicas whose leaving the Work has not heard of
  std::vector<control::Order> orders_;
  std::vector<std::int32_t> pulling_;  // places that are released and have not been told when they pull
  Version told_;                       // the newest that the Controller was told to be complete
  Time now_{};
  Time open_{};      // the newest commit's; see network.h
  Time complete_{};  // when the newest commit is complete
  Version completed_;
  std::optional<Time> wake_;
  std::int64_t under_way_ = 0;  // iterations, facts on their way, changes to come
  std::int64_t iterations_ = 0;
  std::optional<control::StopAsked> stop_asked_;
  bool finished_ = false;
  absl::Status trouble_;  // an error of Work inside an order
  std::optional<std::string> broken_;
};

}  // namespace paceline::sim
