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
#include "paceline/decisions/supervisor/supervisor.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/child_process.h"
#include "paceline/processes/launch/fork_server.h"
#include "paceline/processes/launch/run_keeper.h"
#include "paceline/processes/peer/peer.h"
#include "paceline/processes/rpc/run_notes.h"
#include "paceline/processes/runs/leader.h"
#include "paceline/transport/ipc/descriptor_keep.h"

namespace paceline::launch {

// The processes of a host and their settings.
struct HostProcesses {
  std::string folder;  // the folder of the run, or of this host; its logs are in folder/logs
  // The first host has a coordinator and an evaluator from the start.
  bool first = true;
  std::string listen{};  // the address of a coordinator on this host; "": the job's
  int rank = 0;
  std::string run{};  // the folder of the run, if it has begun and this host is not the first
  bool resume = false;
  bool again = false;            // the resumed run was not stopped: hosts that stay away are given up
  bool only_checkpoint = false;  // later weights that servers of other hosts still have do not count
  // How processes reach the coordinator. On the first host the address comes from the coordinator itself.
  peer::PeerOptions peers{};
  std::vector<std::int64_t> shards{};
  std::string exchange{};  // this host's address, for servers and stages of others; empty: there are none
  std::string fabric{};    // the fabric of the links between servers
  std::vector<std::string> workers{};
  // this host's job file, which names the only program and files that may be started and read here
  std::string job_file{};
  // For hosts that share no disk: the folder in which this host keeps a run that another one leads, and the
  // job before planning.
  std::string runs_dir{};
  std::string asked{};
  // For one of several tasks on a host, except the first: the file in which the first task keeps the coordinator's
  // address; "": `coordinator` in `folder`, which this process writes. The first task shows the notes of the run.
  std::string address_file{};
};

// The coordinator's address in a file that a launcher of this host keeps; nothing if it has none now.
std::optional<std::string> address_in(const std::string& file);

// A coordinator that answered. `number`: a random one, different for each process; 0 if it did not say one.
struct Leads {
  bool trains = false;
  std::uint64_t number = 0;
};
// The coordinator at that address, if it leads the run with a folder of this name. `limit`: how long it may take to answer.
std::optional<Leads> leads_run(const std::string& address, const rpc::Access& access, const std::string& name,
                               std::chrono::milliseconds limit);

// All processes of a job, on one machine.
HostProcesses all_processes(const std::string& run, const config::JobConfig& job, bool resume);

class LocalCluster {
 public:
  // Errors: the report of a process that could not start.
  static absl::StatusOr<LocalCluster> start(HostProcesses processes, const config::JobConfig& job,
                                            std::shared_ptr<ForkServer> fork_server = nullptr);

  // The run's status, for a terminal of this width; nothing if the coordinator does not answer.
  std::optional<wire::StatusReply> status(int width);

  // Watches the children, and returns news for people, one line each.
  std::vector<std::string> tend();
  // Waits for the next end of a child that tend() did not see, but no longer than `limit`. A signal ends it too.
  void wait_for_end(std::chrono::milliseconds limit) const;

  // Set once everything is over on this host: OK, or why the run could not go on.
  const std::optional<absl::Status>& outcome() const { return supervisor_.outcome(); }
  // The failure of a program after the job was over.
  const absl::Status& after() const { return supervisor_.after(); }
  // True if the run is over, and programs here still do their own work: a stop then ends them at once.
  bool ending() const { return supervisor_.ending(); }
  // True if the run has begun, or goes on.
  bool training() const { return supervisor_.training(); }
  // True if a stop was asked for here before the run was over here.
  bool stopped() const { return supervisor_.stopping(); }
  // See Supervisor::stopped_early().
  bool stopped_early() const { return supervisor_.stopped_early(); }
  // See Supervisor::interrupted().
  const std::optional<std::string>& interrupted() const { return supervisor_.interrupted(); }
  // True if some process died without a line of its own: its log may say more than the outcome.
  bool logs_say_more() const { return supervisor_.logs_say_more(); }
  // The folder of the run, if the coordinator is on this host by now.
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
    // a server's: descriptors of its memory, which its successor takes up
    std::optional<ipc::DescriptorKeep> keep{};
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
  std::optional<What> act(const supervisor::AskStop& stop);
  std::optional<What> act(const supervisor::GiveWay& way);
  std::optional<What> act(const supervisor::LookAtFolder& look);
  std::optional<What> act(const supervisor::Tell& tell);

  absl::Status start_coordinator(const supervisor::StartCoordinator& start);
  absl::Status listen();
  std::vector<std::string> coordinator_arguments(const supervisor::StartCoordinator& start) const;
  absl::Status read_access();
  absl::Status start(const std::string& name);
  absl::StatusOr<ChildProcess> start_process(ChildProgram program, const std::string& name,
                                             const std::vector<std::string>& arguments,
                                             const std::vector<int>& inherited = {});
  absl::Status follow(const std::string& address);
  void start_keeper(const std::string& run);
  void hear_of_keeper(const wire::StatusReply& reply);
  bool ask(const wire::StopRequest& request);
  supervisor::LeaderFailover::Seen look_around() const;
  void look_whether_led_elsewhere(std::uint64_t own_number);
  bool connect();

  const HostProcesses processes_;
  const bool shared_folder_;  // whether all hosts see one run folder
  const double patience_s_;   // how long to wait for another host
  supervisor::Supervisor supervisor_;
  std::string run_;                           // the run's folder, if the coordinator is here
  std::string listen_;                        // the address that the job gives its coordinator
  std::optional<ListeningSocket> listening_;  // the socket of this host's coordinator
  peer::PeerOptions reach_;
  rpc::Access access_;
  std::shared_ptr<ForkServer> fork_server_;  // the server that has the built-in models, until it dies
  std::optional<ChildProcess> coordinator_;
  std::map<std::string, Child> children_;  // servers, workers, evaluator
  std::unique_ptr<peer::Stub> stub_;       // null: not connected
  // Only for hosts that share no disk and keep copies, on a host that does not lead from the start.
  std::unique_ptr<RunKeeper> keeper_;
  std::optional<runs::Leader> next_leader_;
  std::string run_name_;
  std::vector<std::string> news_;
  rpc::SeenNotes notes_;
  std::chrono::steady_clock::time_point next_memory_{};  // when to report memory to the coordinator
  std::chrono::steady_clock::time_point next_look_{};    // when to look for a leader elsewhere
};

}  // namespace paceline::launch
