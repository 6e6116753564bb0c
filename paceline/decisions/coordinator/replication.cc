#include "paceline/decisions/coordinator/replication.h"

#include <utility>

#include "paceline/base/status_macros.h"

namespace paceline::coordinator {

Replication::Replication(const JobSettings& job, Version start, ServerFleet& servers, Outbox& out)
    : kept_(shards_kept(static_cast<int>(job.hosts), static_cast<int>(job.copies))),
      servers_(servers),
      out_(out),
      commits_(servers.size(), start) {}

absl::Status Replication::prepared(ServerId server, Version version) {
  if (saving_) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const auto certain, commits_.prepared(server, version));
  if (!certain) return absl::OkStatus();
  servers_.tell(Publish{*certain});
  return absl::OkStatus();
}

absl::Status Replication::lose(std::optional<ServerId> server, std::optional<Version> newest) {
  if (!std::exchange(saving_, true)) begin(newest);
  if (server && emergency_) PACELINE_RETURN_IF_ERROR(emergency_->lose(*server));
  return absl::OkStatus();
}

void Replication::begin(std::optional<Version> newest) {
  saved_ = !commits_.snapshot() || commits_.latest() == newest;
  if (saved_) return;
  IdVector<ServerId, bool> here;
  for (const ServerId server : servers_.ids()) here.push_back(servers_.here(server));
  write(*commits_.snapshot(), std::move(here));
}

void Replication::take_up(RecoveryVote::Found found) {
  saving_ = true;
  write(std::move(found.snapshot), std::move(found.holders));
}

// `here`: who has it.
void Replication::write(CommitQuorum::Snapshot snapshot, IdVector<ServerId, bool> here) {
  snapshot_ = std::move(snapshot);
  holders_ = std::move(here);
  out_.put(OpenCheckpoint{snapshot_.state.version});
}

absl::Status Replication::opened(const absl::StatusOr<std::string>& folder) {
  PACELINE_RETURN_IF_ERROR(folder.status());
  emergency_.emplace(kept_, holders_, snapshot_.state.version, *folder,
                     [this](ServerId server, WriteCopy order) {
                       order.by_call = !servers_.sees_folder(server);
                       servers_.tell_one(server, std::move(order));
                     });
  return emergency_->begin();
}

absl::Status Replication::written(ServerId server, const CopyWritten& message) {
  if (!emergency_ || saved_) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(emergency_->written(server, message));
  if (emergency_->done()) out_.put(CountCheckpoint{snapshot_.state, snapshot_.elapsed});
  return absl::OkStatus();
}

absl::Status Replication::counted(const absl::Status& status) {
  saved_ = status.ok();
  return status;
}

}  // namespace paceline::coordinator
