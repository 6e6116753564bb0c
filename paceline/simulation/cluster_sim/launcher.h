// The launcher of one host in the made-up cluster, or of all of them: the real Supervisor, and the processes
// that it starts. When it is killed, they die with it, and somebody may start it again.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "paceline/decisions/supervisor/supervisor.h"
#include "paceline/simulation/cluster_sim/server_process.h"

namespace paceline::cluster_sim {

class Launcher {
 public:
  using Members = std::vector<std::pair<Process*, supervisor::MemberKind>>;

  // The processes outlive the launcher. `members`: in the order of starting. The evaluator starts on the
  // coordinator's host and comes last.
  Launcher(Cluster& cluster, CoordinatorProcess& coordinator, Members members, bool of_one_host);

  void start();
  // Kills the launcher and all processes that it started.
  void kill();
  void stop(const std::string& why) { happens(supervisor::StopWanted{why}); }

  int host() const { return coordinator_.host(); }
  // True if a stop was ever asked for: by a person, or because no replica was left.
  bool stopped() const { return stopped_; }
  bool alive() const { return supervisor_.has_value(); }
  // The host that leads next, as the leader has told it; only if hosts share no disk.
  std::optional<int> next_leader() const { return next_leader_; }
  // How the run ended, as this launcher says; kept when the launcher dies.
  const std::optional<absl::Status>& outcome() const { return outcome_; }

 private:
  using What = decltype(supervisor::Event::what);

  supervisor::SupervisorOptions options() const;
  void look();
  void ask();
  void happens(What what);
  std::optional<What> on(const supervisor::StartMember& start);
  std::optional<What> on(const supervisor::KillMember& kill);
  std::optional<What> on(const supervisor::StartCoordinator& start);
  std::optional<What> on(const supervisor::KillCoordinator&);
  std::optional<What> on(const supervisor::DropCoordinator&) { return std::nullopt; }
  std::optional<What> on(const supervisor::FollowLeader& leader);
  std::optional<What> on(const supervisor::EndWaiting& end);
  std::optional<What> on(const supervisor::AskStop& ask);
  std::optional<What> on(const supervisor::GiveWay& way);
  std::optional<What> on(const supervisor::LookAtFolder&);
  std::optional<What> on(const supervisor::Tell& tell);
  bool answers(int leader) const;
  int leader_by_folder() const;
  supervisor::LeaderFailover::Seen look_around() const;
  void hear_of_keeper(const CoordinatorProcess& leader);
  void look_whether_led_elsewhere();
  Process& process(const std::string& name);
  CoordinatorProcess& led_by() {
    return *cluster_.coordinators.at(static_cast<std::size_t>(cluster_.follows.at(host())));
  }

  Cluster& cluster_;
  World& world_;
  RunFolder& folder_;                // this host's view of it
  CoordinatorProcess& coordinator_;  // the coordinator's process on this host
  const Members members_;
  const bool of_one_host_;
  bool stopped_ = false;
  std::optional<supervisor::Supervisor> supervisor_;
  // ends of members that the supervisor has not been told of
  std::deque<std::pair<std::string, supervisor::ProcessEnd>> ends_;
  std::optional<supervisor::ProcessEnd> coordinator_end_;
  std::optional<absl::Status> outcome_;
  std::optional<int> next_leader_;
  std::uint64_t life_ = 0;
};

// How the run ended for each of them.
std::string ended_in_words(const std::vector<std::unique_ptr<Launcher>>& launchers);

}  // namespace paceline::cluster_sim
