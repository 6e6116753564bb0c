// The processes of a launcher without any process: for tests of its supervisor.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/decisions/supervisor/supervisor.h"

namespace paceline::supervisor {

inline const std::vector<std::pair<std::string, MemberKind>> kMembers{
    {"server0", MemberKind::kServer}, {"w0", MemberKind::kWorker}, {"w1", MemberKind::kWorker}};

inline SupervisorOptions options() {
  SupervisorOptions options{.members = kMembers};
  options.replicas = {{"w0"}, {"w1"}};
  options.evaluates = true;
  return options;
}

inline ProcessEnd killed() {
  return {ExitReason::kKilled, false, true, "killed by signal 9 (Killed)",
          with_exit_reason(absl::UnavailableError("it: killed by signal 9 (Killed)"), ExitReason::kKilled)};
}
inline ProcessEnd said(ExitReason reason, const std::string& why) {
  return {reason, false, false, "exit status 2", with_exit_reason(absl::UnavailableError(why), reason)};
}
inline ProcessEnd done() { return {ExitReason::kDone, true, false, "exit status 0", absl::OkStatus()}; }
inline ProcessEnd interrupted(const std::string& why) {
  return {ExitReason::kInterrupted, true, false, "exit status 0",
          with_exit_reason(absl::CancelledError(why), ExitReason::kInterrupted)};
}

// A supervisor whose actions are carried out at once, and noted.
class LauncherWorld {
 public:
  void begin(SupervisorOptions with) {
    supervisor_.emplace(std::move(with), now_);
    happens(Begun{});
  }
  // Begins, and the coordinator says that the run trains.
  void begin_to_train(SupervisorOptions with = options()) {
    begin(std::move(with));
    answer(1, true);
    pass();
    done_.clear();
  }
  template <class What>
  void happens(What what) {
    for (const Action& action : supervisor_->take({now_, std::move(what)})) carry_out(action);
  }
  void answer(std::int64_t attempt, bool trains, std::vector<std::string> missing = {}) {
    happens(Answered{"/runs/one", attempt, trains, std::move(missing)});
  }
  void pass(std::chrono::milliseconds time = std::chrono::milliseconds(100)) {
    now_ += time;
    happens(TimePassed{});
  }
  void ends(const std::string& name, ProcessEnd end, std::optional<Version> newest = std::nullopt,
            bool has_trained = false) {
    happens(MemberEnded{name, std::move(end), newest, has_trained});
  }
  void coordinator_ends(ProcessEnd end, std::optional<Version> newest = std::nullopt,
                        bool has_trained = true) {
    happens(CoordinatorEnded{std::move(end), newest, has_trained});
  }
  std::vector<std::string> take_done() { return std::exchange(done_, {}); }
  std::string outcome() const {
    if (!supervisor_->outcome()) return "none";
    return supervisor_->outcome()->ok() ? "OK" : std::string(supervisor_->outcome()->message());
  }

  std::optional<Supervisor> supervisor_;
  Supervisor::SteadyTime now_{std::chrono::hours(1)};
  std::vector<std::string> done_;
  // The result of each start.
  std::function<absl::Status(const std::string&)> starting_ = [](const std::string&) {
    return absl::OkStatus();
  };
  bool killed_at_start_ = false;
  std::optional<bool> runs_job_evaluates_;
  LeaderFailover::Seen folder_;

 private:
  void note(std::string what) { done_.push_back(std::move(what)); }
  void carry_out(const Action& action) {
    if (const auto* start = std::get_if<StartMember>(&action)) {
      note("start " + start->name);
      happens(MemberStarted{start->name, starting_(start->name)});
    } else if (const auto* kill = std::get_if<KillMember>(&action)) {
      note("kill " + kill->name);
    } else if (const auto* lead = std::get_if<StartCoordinator>(&action)) {
      note(fmt::format("start coordinator{}{}{}", lead->again ? " again" : "",
                       lead->hosts_start ? ", other hosts may be starting" : "",
                       lead->without ? fmt::format(" without {}", *lead->without) : ""));
      happens(CoordinatorStarted{starting_("coordinator"), killed_at_start_, runs_job_evaluates_});
    } else if (const auto* way = std::get_if<GiveWay>(&action)) {
      note(fmt::format("ask the coordinator to give way to host {} at {}", way->to.host, way->to.address));
    } else if (std::holds_alternative<KillCoordinator>(action)) {
      note("kill coordinator");
    } else if (std::holds_alternative<DropCoordinator>(action)) {
      note("drop coordinator");
    } else if (const auto* follow = std::get_if<FollowLeader>(&action)) {
      note("follow " + follow->address.value_or("this host"));
    } else if (std::holds_alternative<EndWaiting>(action)) {
      note("end waiting");
    } else if (const auto* ask = std::get_if<AskStop>(&action)) {
      note("ask to stop: " + ask->why + (ask->cause == StopCause::kShutDown ? " with its host" : "") +
           (ask->cannot_start.empty() ? "" : ", " + ask->cannot_start));
    } else if (std::holds_alternative<LookAtFolder>(action)) {
      happens(FolderSeen{folder_});
    } else if (const auto* tell = std::get_if<Tell>(&action)) {
      note(tell->line);
    }
  }
};

}  // namespace paceline::supervisor
