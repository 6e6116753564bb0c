// The launcher in the made-up cluster: the real Supervisor, and processes that it starts. It dies with all of
// them, and somebody starts it again.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/cluster_sim/coordinator_process.h"
#include "paceline/supervisor/supervisor.h"

namespace paceline::cluster_sim {

class Launcher {
 public:
  // What it starts outlives it. `members`: in the order of starting, the evaluator among them.
  Launcher(World& world, const Network& network, const Scenario& scenario, RunFolder& folder,
           CoordinatorProcess& coordinator, std::vector<std::pair<Process*, supervisor::MemberKind>> members);

  void start();
  // With all that it has started.
  void kill();
  void stop(const std::string& why) { happens(supervisor::StopWanted{why}); }

  bool alive() const { return supervisor_.has_value(); }
  // How the run ended, as it says; kept when it dies.
  const std::optional<absl::Status>& outcome() const { return outcome_; }

 private:
  using What = decltype(supervisor::Event::what);

  supervisor::SupervisorOptions options() const;
  void look();
  void happens(What what);
  std::optional<What> carry_out(const supervisor::Action& action);
  Process& process(const std::string& name);
  std::optional<Version> newest() const;

  World& world_;
  const Network& network_;
  const Scenario& scenario_;
  RunFolder& folder_;
  CoordinatorProcess& coordinator_;
  const std::vector<std::pair<Process*, supervisor::MemberKind>> members_;
  std::optional<supervisor::Supervisor> supervisor_;
  std::deque<std::pair<std::string, supervisor::ProcessEnd>> ends_;  // of members, not told yet
  std::optional<supervisor::ProcessEnd> coordinator_end_;
  std::optional<absl::Status> outcome_;
  std::uint64_t life_ = 0;
  bool begun_before_ = false;
};

}  // namespace paceline::cluster_sim
