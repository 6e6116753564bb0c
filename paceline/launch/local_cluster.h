// The processes of a job on this machine, children of this one: all of them, or one host's part: its servers
// and workers, and on the first host the coordinator and the evaluator. One thread.
//
// What always holds: while the job trains, a server or a coordinator that dies is started again, and the run
// goes on from its newest checkpoint; it gives up when that gains nothing. A worker that dies is started
// again only with such a new attempt at the job: until then the others go on without it. While a run that has
// trained before comes back, anybody who is killed is started again, for as long. Where the first
// host does not come back, the next one has the coordinator and the evaluator from then on.
#pragma once

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/listening_socket.h"
#include "paceline/config/job_config.h"
#include "paceline/launch/child_process.h"
#include "paceline/launch/succession.h"
#include "paceline/roles/peer.h"
#include "paceline/runs/restarts.h"

namespace paceline::launch {

// What runs on a host.
struct Household {
  std::string folder;  // of the run, or of this host; its logs lie in folder/logs
  // The first host has a coordinator and an evaluator from the start.
  bool first = true;
  std::string listen{};  // where a coordinator of this host does; "": where the job says
  int rank = 0;
  std::string run{};  // where this host is not the first: the folder of the run, if it has begun
  bool resume = false;
  bool again = false;  // likewise, of a run that nobody has stopped: hosts that stay away are given up
  roles::PeerOptions
      peers{};  // how the others reach the coordinator; on the first host its address comes from itself
  std::vector<std::int64_t> shards{};
  std::string exchange{};  // address of this host, for servers and stages of others; empty: there are none
  std::string fabric{};    // what carries what goes between servers
  std::vector<std::string> workers{};
  std::string job_file{};  // of this host, of a job that trains a program: what may be started here
};

// All of a job on one machine.
Household whole_household(const std::string& run, const config::JobConfig& job, bool resume);

class LocalCluster {
 public:
  // Errors: what a process said when it could not start.
  static absl::StatusOr<LocalCluster> start(Household household, const config::JobConfig& job);

  // How the run is, for a terminal of this width; nothing when the coordinator does not answer.
  std::optional<wire::StatusReply> status(int width);

  // Looks after the children: news for people, a line each.
  std::vector<std::string> tend();

  // Set once all is over on this host: OK, or why the run could not go on.
  const std::optional<absl::Status>& outcome() const { return outcome_; }
  // Some process died without a word of its own: its log may say more than the outcome.
  bool logs_say_more() const { return logs_say_more_; }
  // The folder of the run, where the coordinator is on this host by now.
  std::optional<std::string> led_run() const;

  // Asks for a clean stop, with a checkpoint.
  void stop(const std::string& why);
  // At once: whatever is running here dies.
  void kill();

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Child {
    ChildProgram program;
    std::string name;
    std::vector<std::string> arguments;
    std::optional<ChildProcess> process;  // nothing: it has ended
    std::int64_t attempt = 0;             // at the job, for which it was started last
    std::optional<SteadyTime> missed_since{};
  };

  LocalCluster(Household household, const config::JobConfig& job);
  absl::Status start_first_coordinator();
  bool was_killed_at_once(const absl::Status& start);
  absl::Status start_coordinator(bool again);
  std::vector<std::string> coordinator_words(bool again) const;
  Child evaluator() const;
  absl::Status start(Child& child);
  absl::Status start_peers();
  bool connect();
  // A peer has ended: whether it is to be heard of, as news.
  std::optional<std::string> look_at_end(Child& child, const ChildProcess::End& end);
  std::string start_after_loss(Child& child);
  bool has_trained_before() const;
  bool restart_evaluator(const ChildProcess::End& end);
  void look_at_coordinator(std::vector<std::string>& news);
  void look_for_leader(std::vector<std::string>& news);
  absl::Status follow(const std::string& address);
  absl::Status lead(std::optional<int> lost);
  void look_at_attempt(std::vector<std::string>& news);
  void start_again_who_is_missed(std::vector<std::string>& news);
  absl::Status end_of_peers() const;
  absl::Status end_of_coordinator(const ChildProcess::End& end) const;
  bool leads() const { return coordinator_.has_value(); }
  bool here(const std::string& name) const;
  // Some replica has all of its workers.
  bool any_replica_whole() const;
  bool all_ended() const;

  const Household household_;
  const bool kept_twice_;  // then the coordinator says what it goes on from
  bool evaluates_;
  std::string run_;                           // the run's folder, where the coordinator is here
  std::optional<int> gone_;                   // the host that led before this one
  std::optional<Succession> next_;            // where the coordinator is on another host
  std::string listen_;                        // where the job's coordinator listens
  std::optional<ListeningSocket> listening_;  // where that of this host does
  roles::PeerOptions reach_;
  rpc::Access access_;
  std::optional<ChildProcess> coordinator_;
  std::vector<Child> peers_;                        // servers, workers, evaluator
  std::vector<std::vector<std::string>> replicas_;  // the names of each one's workers
  std::unique_ptr<roles::Stub> stub_;               // null: not connected
  std::optional<absl::Status> outcome_;
  std::optional<absl::Status> first_error_;  // of a peer, before training began
  std::optional<absl::Status> failure_;      // of the run, as a peer heard it
  bool logs_say_more_ = false;
  std::vector<std::string> notes_;          // of the coordinator, not passed on yet
  int notes_seen_ = 0;
  wire::StatusReply latest_;  // of the coordinator
  std::int64_t attempt_ = 0;
  runs::Restarts restarts_;
  runs::Restarts evaluator_restarts_;
  runs::Restarts comes_back_;  // of peers, before training began
  bool training_ = false;
  std::optional<std::string> stopping_;  // why
  bool coordinator_gone_ = false;        // when asked last
  bool planned_anew_ = false;            // the coordinator says what becomes of a lost one's work
  std::string lost_worker_;              // since tend() began: one, and why
  std::string lost_all_;                 // likewise, with whom the last replica went
};

}  // namespace paceline::launch
