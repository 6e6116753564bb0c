#include "paceline/rpc/checkpoints.h"

#include <utility>

#include "paceline/base/status_macros.h"

namespace paceline::rpc {

Checkpoints::Checkpoints(std::size_t servers, std::function<void(const wire::ServerOrder&)> tell_servers,
                         CheckpointSink& sink, std::optional<Version> newest)
    : servers_(servers), tell_servers_(std::move(tell_servers)), sink_(sink), newest_(newest) {}

absl::Status Checkpoints::request(control::ControllerState state, Duration elapsed) {
  const Version version = state.version;
  if (writing_ || version == newest_) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const std::string dir, sink_.begin(version));
  writing_ = {.state = std::move(state), .elapsed = elapsed};
  wire::ServerOrder order;
  order.mutable_write_checkpoint()->set_version(version.value());
  order.mutable_write_checkpoint()->set_dir(dir);
  tell_servers_(order);
  return absl::OkStatus();
}

absl::Status Checkpoints::written(std::size_t server, const wire::ServerWritten& message) {
  if (!writing_ || writing_->state.version != Version(message.version())) return absl::OkStatus();
  if (!message.error().empty()) writing_->status.Update(absl::ResourceExhaustedError(message.error()));
  writing_->answered.insert(server);
  if (writing_->answered.size() < servers_) return absl::OkStatus();
  const Writing done = *std::exchange(writing_, std::nullopt);
  wire::ServerOrder order;
  order.mutable_drop()->set_version(done.state.version.value());
  order.mutable_drop()->set_checkpoint(true);
  tell_servers_(order);
  absl::Status status = done.status;
  if (status.ok()) status = sink_.finish(done.state, done.elapsed);
  if (status.ok()) newest_ = done.state.version;
  if (!status.ok()) sink_.give_up();
  return status;
}

}  // namespace paceline::rpc
