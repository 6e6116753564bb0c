// All processes of a job on this machine: a coordinator, its servers, its workers and an evaluator, children
// of this one. One thread.
#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/cli/child_process.h"
#include "paceline/config/job_config.h"
#include "paceline/rpc/paceline.grpc.pb.h"

namespace paceline::cli {

class LocalCluster {
 public:
  // Errors: what a process said when it could not start.
  static absl::StatusOr<LocalCluster> start(const std::string& run, const config::JobConfig& job,
                                            bool resume);

  // How the run is, for a terminal of this width; nothing when the coordinator does not answer.
  std::optional<rpc::wire::StatusReply> status(int width);

  // Looks after the children: news for people, a line each.
  std::vector<std::string> tend();

  // Set once the coordinator has ended: OK, or why the run could not go on.
  const std::optional<absl::Status>& outcome() const { return outcome_; }

  // Asks for a clean stop, with a checkpoint.
  void stop(const std::string& why);
  void kill() { coordinator_.signal(SIGKILL); }

 private:
  explicit LocalCluster(ChildProcess coordinator) : coordinator_(std::move(coordinator)) {}
  absl::Status start_peers(const std::string& run, const config::JobConfig& job, const std::string& address);
  absl::Status end_of_coordinator(int wait_status) const;
  // Some replica has all of its workers.
  bool any_replica_whole() const;

  ChildProcess coordinator_;
  std::vector<ChildProcess> peers_;                 // servers, workers, evaluator
  std::vector<std::vector<std::string>> replicas_;  // the names of each one's workers
  std::unique_ptr<rpc::wire::Coordinator::Stub> stub_;
  int notes_seen_ = 0;              // of the coordinator's
  std::vector<std::string> notes_;  // that nobody was told yet
  std::optional<absl::Status> outcome_;
  std::optional<std::string> first_error_;  // of a peer, before training began
  bool training_ = false;
  bool coordinator_gone_ = false;
  bool planned_anew_ = false;  // the coordinator says what becomes of a lost one's work
  bool lost_all_ = false;      // the last replica did not leave in peace
};

}  // namespace paceline::cli
