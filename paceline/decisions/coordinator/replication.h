// The coordinator's part in keeping the weights twice. It says which commits are certain. When a server is
// lost, it orders the others to write the last certain version, and counts that as a checkpoint. It does the
// same with the versions of returning servers after a coordinator was lost. Pure.
//
// Invariant: no version is published before it is certain; after a server is lost, no version becomes
// certain.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <absl/status/status.h>

#include "paceline/decisions/coordinator/checkpoints.h"
#include "paceline/decisions/coordinator/commit_quorum.h"
#include "paceline/decisions/coordinator/emergency_checkpoint.h"
#include "paceline/decisions/coordinator/job_settings.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/recovery_vote.h"
#include "paceline/decisions/coordinator/server_fleet.h"
#include "paceline/decisions/coordinator/server_parts.h"

namespace paceline::coordinator {

class Replication {
 public:
  // The attempt begins with version `start`, which has a checkpoint unless it is 0. The references
  // outlive this.
  Replication(const JobSettings& job, Version start, ServerFleet& servers, Outbox& out);

  // See CommitQuorum.
  void ordered(std::vector<control::ControllerState> states, Duration elapsed) {
    commits_.ordered(std::move(states), elapsed);
  }
  const CommitQuorum::Snapshot& ordered(Version version) const { return commits_.ordered(version); }
  absl::Status prepared(ServerId server, Version version);
  // The newest version that a process may have seen.
  Version certain() const { return commits_.latest(); }

  // A server is lost, or `server` is nothing: two of them cannot reach each other. From then on only further
  // losses and the results of writing are to be told. `newest`: the checkpoint that counts, if there is one.
  // Errors, here and below: the version cannot be had.
  absl::Status lose(std::optional<ServerId> server, std::optional<Version> newest);
  // Writes a version that a vote found, before anything is ordered; the version counts then.
  void take_up(RecoveryVote::Found found);
  absl::Status opened(const absl::StatusOr<std::string>& folder);
  absl::Status written(ServerId server, const CopyWritten& message);
  absl::Status counted(const absl::Status& status);
  bool saving_copies() const { return saving_; }
  // Whether the checkpoint of the last certain version counts.
  bool saved() const { return saved_; }

 private:
  void begin(std::optional<Version> newest);
  void write(CommitQuorum::Snapshot snapshot, IdVector<ServerId, bool> here);

  const ServerShards kept_;
  ServerFleet& servers_;
  Outbox& out_;
  CommitQuorum commits_;
  IdVector<ServerId, bool> holders_;              // the servers that have it
  std::optional<EmergencyCheckpoint> emergency_;  // nothing if there is nothing to write
  CommitQuorum::Snapshot snapshot_;               // the state of the version that is written
  bool saving_ = false;
  bool saved_ = false;
};

}  // namespace paceline::coordinator
