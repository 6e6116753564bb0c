// The processes of a job on this machine, as children of this process: all of them, or those of one host: its
// servers and workers, and on the first host the coordinator and the evaluator. One thread.
//
// supervisor::Supervisor decides what to do; this class gives it the events, and carries its actions out.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/listening_socket.h"
#include "paceline/config/job_config.h"
#include "paceline/launch/child_process.h"
#include "paceline/launch/fork_server.h"
#include "paceline/launch/run_keeper.h"
#include "paceline/peer/peer.h"
#include "paceline/runs/leader.h"
#include "paceline/supervisor/supervisor.h"

namespace paceline::launch {

// What runs on a host.
struct HostProcesses {
  std::string folder;  // of the run, or of this host; its logs lie in folder/logs
  // The first host has a coordinator and an evaluator from the start.
  bool first = true;
  std::string listen{};  // where a coordinator of this host does; "": where the job says
  int rank = 0;
  std::string run{};  // where this host is not the first: the folder of the run, if it has begun
  bool resume = false;
  bool again = false;  // it resumes a run that nobody has stopped: hosts that stay away are given up
  peer::PeerOptions
      peers{};  // how the others reach the coordinator; on the first host its address comes from itself
  std::vector<std::int64_t> shards{};
  std::string exchange{};  // address of this host, for servers and stages of others; empty: there are none
  std::string fabric{};    // what carries what goes between servers
  std::vector<std::string> workers{};
  std::string job_file{};  // of this host, of a job that trains a program: what may be started here
  // Where hosts share no disk: where this one keeps a run that another one leads, and the job as it was asked
  // for.
  std::string runs_dir{};
  std::string asked{};
  std::string asked_file{};  // where that lies; "": the job is in the run's folder, which is this host's
};

// Whether a coordinator at that address leads the run with a folder of this name, and says so within that
// time.
bool leads_run(const std::string& address, const rpc::Access& access, const std::string& name,
               std::chrono::milliseconds limit);

// All of a job on one machine.
HostProcesses all_processes(const std::string& run, const config::JobConfig& job, bool resume);

class LocalCluster {
 public:
  // Errors: what a process said when it could not start.
  static absl::StatusOr<LocalCluster> start(HostProcesses processes, const config::JobConfig& job,
                                            std::shared_ptr<ForkServer> fork_server = nullptr);

  // How the run is, for a terminal of this width; nothing when the coordinator does not answer.
  std::optional<wire::StatusReply> status(int width);

  // Watches the children, and returns news for people, one line each.
  std::vector<std::string> tend();

  // Set once all is over on this host: OK, or why the run could not go on.
  const std::optional<absl::Status>& outcome() const { return supervisor_.outcome(); }
  // The failure of a program after the job was over.
  const absl::Status& after() const { return supervisor_.after(); }
  // The run is over, and programs here still do their own work: a stop then ends them at once.
  bool ending() const { return supervisor_.ending(); }
  // The run has begun, or goes on.
  bool training() const { return supervisor_.training(); }
  // Somebody here stopped the run before it was over.
  bool stopped() const { return supervisor_.stopping(); }
  // As Supervisor has it.
  const std::optional<std::string>& interrupted() const { return supervisor_.interrupted(); }
  // Some process died without a line of its own: its log may say more than the outcome.
  bool logs_say_more() const { return supervisor_.logs_say_more(); }
  // The folder of the run, where the coordinator is on this host by now.
  std::optional<std::string> led_run() const;

  // Asks for a checkpoint of the newest version; training goes on. False: nobody has heard it.
  bool write_checkpoint(const std::string& why);
  // Asks for a clean stop, with a checkpoint.
  void stop(const std::string& why, StopCause cause) { take(supervisor::StopWanted{why, cause}); }
  // Kills all processes here at once.
  void kill() { take(supervisor::KillWanted{}); }

 private:
  struct Child {
    ChildProgram program;
    std::vector<std::string> arguments;
    std::optional<ChildProcess> process;  // nothing: it has ended
  };
  using What = decltype(supervisor::Event::what);

  LocalCluster(HostProcesses processes, const config::JobConfig& job);

  void take(What what);
  std::optional<What> carry_out(const supervisor::Action& action);
  std::optional<What> act(const supervisor::StartMember& start);
  std::optional<What> act(const supervisor::KillMember& kill);
  std::optional<What> act(const supervisor::StartCoordinator& start);
  std::optional<What> act(const supervisor::KillCoordinator&);
  std::optional<What> act(const supervisor::DropCoordinator&);
  std::optional<What> act(const supervisor::FollowLeader& follow);
  std::optional<What> act(const supervisor::EndWaiting& end);
  std::optional<What> act(const supervisor::AskStop& ask);
  std::optional<What> act(const supervisor::LookAtFolder& look);
  std::optional<What> act(const supervisor::Tell& tell);

  absl::Status start_coordinator(const supervisor::StartCoordinator& start);
  std::vector<std::string> coordinator_arguments(const supervisor::StartCoordinator& start) const;
  absl::Status read_access();
  absl::Status start(const std::string& name);
  absl::StatusOr<ChildProcess> start_process(ChildProgram program, const std::string& name,
                                             const std::vector<std::string>& arguments);
  absl::Status follow(const std::string& address);
  void start_keeper(const std::string& run);
  void hear_of_keeper(const wire::StatusReply& reply);
  supervisor::LeaderFailover::Seen look_around() const;
  bool connect();

  const HostProcesses processes_;
  const bool shared_folder_;  // of all hosts
  const double patience_s_;   // for another host
  supervisor::Supervisor supervisor_;
  std::string run_;                           // the run's folder, where the coordinator is here
  std::string listen_;                        // where the job's coordinator listens
  std::optional<ListeningSocket> listening_;  // where that of this host does
  peer::PeerOptions reach_;
  rpc::Access access_;
  std::shared_ptr<ForkServer> fork_server_;  // where the built-in models compute, until it dies
  std::optional<ChildProcess> coordinator_;
  std::map<std::string, Child> children_;  // servers, workers, evaluator
  std::unique_ptr<peer::Stub> stub_;       // null: not connected
  // Where hosts share no disk and weights are kept twice, on a host that does not lead from the start.
  std::unique_ptr<RunKeeper> keeper_;
  std::optional<runs::Leader> next_leader_;
  std::string run_name_;
  std::vector<std::string> news_;
  int notes_seen_ = 0;
  std::chrono::steady_clock::time_point next_memory_{};  // is told to the coordinator
};

}  // namespace paceline::launch
