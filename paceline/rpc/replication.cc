#include "paceline/rpc/replication.h"

#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/config/server_parts.h"

namespace paceline::rpc {

Replication::Replication(const config::JobConfig& job, Version start, const ServerFleet& servers,
                         CheckpointSink& sink)
    : kept_(config::shards_kept(static_cast<int>(job.hosts), static_cast<int>(job.copies))),
      servers_(servers),
      sink_(sink),
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
  if (!std::exchange(rescuing_, true)) PACELINE_RETURN_IF_ERROR(begin(newest));
  if (server && rescue_) PACELINE_RETURN_IF_ERROR(rescue_->lose(*server));
  return absl::OkStatus();
}

absl::Status Replication::begin(std::optional<Version> newest) {
  rescued_ = !commits_.books() || commits_.latest() == newest;
  if (rescued_) return absl::OkStatus();
  std::vector<bool> here;
  for (std::size_t server = 0; server < servers_.size(); ++server) here.push_back(servers_.here(server));
  return write(*commits_.books(), std::move(here));
}

absl::Status Replication::take_up(HeldVersions::Found found) {
  rescuing_ = true;
  return write(std::move(found.books), std::move(found.holders));
}

// `here`: who has it.
absl::Status Replication::write(CertainCommits::Books books, std::vector<bool> here) {
  books_ = std::move(books);
  PACELINE_ASSIGN_OR_RETURN(std::string dir, sink_.begin(books_.state.version));
  rescue_.emplace(kept_, std::move(here), books_.state.version, std::move(dir),
                  [this](std::size_t server, const auto& order) { servers_.tell_one(server, order); });
  return rescue_->begin();
}

absl::Status Replication::written(std::size_t server, const wire::ServerRescued& message) {
  if (!rescue_ || rescued_) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(rescue_->written(server, message));
  if (!rescue_->done()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(sink_.finish(books_.state, books_.elapsed));
  rescued_ = true;
  return absl::OkStatus();
}

}  // namespace paceline::rpc
