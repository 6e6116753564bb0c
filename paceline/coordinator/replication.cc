#include "paceline/coordinator/replication.h"

#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/config/server_parts.h"

namespace paceline::coordinator {

Replication::Replication(const config::JobConfig& job, Version start, const ServerFleet& servers,
                         Outbox& out)
    : kept_(config::shards_kept(static_cast<int>(job.hosts), static_cast<int>(job.copies))),
      servers_(servers),
      out_(out),
      commits_(servers.size(), start) {}

absl::Status Replication::prepared(std::size_t server, Version version) {
  if (rescuing_) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const auto certain, commits_.prepared(server, version));
  if (!certain) return absl::OkStatus();
  wire::ServerOrder order;
  order.mutable_certain()->set_version(certain->value());
  servers_.tell(order);
  return absl::OkStatus();
}

absl::Status Replication::lose(std::optional<std::size_t> server, std::optional<Version> newest) {
  if (!std::exchange(rescuing_, true)) begin(newest);
  if (server && rescue_) PACELINE_RETURN_IF_ERROR(rescue_->lose(*server));
  return absl::OkStatus();
}

void Replication::begin(std::optional<Version> newest) {
  rescued_ = !commits_.books() || commits_.latest() == newest;
  if (rescued_) return;
  std::vector<bool> here;
  for (std::size_t server = 0; server < servers_.size(); ++server) here.push_back(servers_.here(server));
  write(*commits_.books(), std::move(here));
}

void Replication::take_up(HeldVersions::Found found) {
  rescuing_ = true;
  write(std::move(found.books), std::move(found.holders));
}

// `here`: who has it.
void Replication::write(CertainCommits::Books books, std::vector<bool> here) {
  books_ = std::move(books);
  holders_ = std::move(here);
  out_.put(OpenCheckpoint{books_.state.version});
}

absl::Status Replication::opened(const absl::StatusOr<std::string>& folder) {
  PACELINE_RETURN_IF_ERROR(folder.status());
  rescue_.emplace(kept_, holders_, books_.state.version, *folder,
                  [this](std::size_t server, const auto& order) { servers_.tell_one(server, order); });
  return rescue_->begin();
}

absl::Status Replication::written(std::size_t server, const wire::ServerRescued& message) {
  if (!rescue_ || rescued_) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(rescue_->written(server, message));
  if (rescue_->done()) out_.put(CountCheckpoint{books_.state, books_.elapsed});
  return absl::OkStatus();
}

absl::Status Replication::counted(const absl::Status& status) {
  rescued_ = status.ok();
  return status;
}

}  // namespace paceline::coordinator
