#include "paceline/decisions/coordinator/checkpoints.h"

#include <utility>

#include "paceline/base/check.h"

namespace paceline::coordinator {

Checkpoints::Checkpoints(std::size_t servers, std::function<void(const ServerOrder&)> tell_servers,
                         Outbox& out, std::optional<Version> newest)
    : servers_(servers), tell_servers_(std::move(tell_servers)), out_(out), newest_(newest) {}

void Checkpoints::request(control::ControllerState state, Duration elapsed) {
  const Version version = state.version;
  if (writing_ || version == newest_) return;
  writing_ = {.version = version, .state = std::move(state), .elapsed = elapsed};
  opening_ = true;
  out_.put(OpenCheckpoint{version});
}

std::optional<Checkpoints::Failed> Checkpoints::opened(const absl::StatusOr<std::string>& folder) {
  PACELINE_CHECK(std::exchange(opening_, false), "a folder was opened for no checkpoint");
  if (!writing_) {  // forgotten meanwhile
    if (folder.ok()) out_.put(DropCheckpoint{});
    return std::nullopt;
  }
  if (!folder.ok()) return Failed{std::exchange(writing_, std::nullopt)->version, folder.status()};
  tell_servers_(WriteCheckpoint{writing_->version, *folder});
  return std::nullopt;
}

std::optional<Checkpoints::Failed> Checkpoints::written(ServerId server, const ServerWritten& message) {
  if (!writing_ || writing_->version != message.version || writing_->answered.size() == servers_)
    return std::nullopt;
  if (!message.error.empty()) writing_->status.Update(absl::ResourceExhaustedError(message.error));
  writing_->answered.insert(server);
  if (writing_->answered.size() < servers_) return std::nullopt;
  tell_servers_(Drop{writing_->version, true});
  if (!writing_->status.ok()) return fail(writing_->status);
  out_.put(CountCheckpoint{std::move(writing_->state), writing_->elapsed});
  return std::nullopt;
}

std::optional<Checkpoints::Failed> Checkpoints::counted(const absl::Status& status) {
  PACELINE_CHECK(writing_, "no checkpoint was to count");
  if (!status.ok()) return fail(status);
  newest_ = std::exchange(writing_, std::nullopt)->version;
  return std::nullopt;
}

Checkpoints::Failed Checkpoints::fail(const absl::Status& why) {
  out_.put(DropCheckpoint{});
  Failed failed{writing_->version, why};
  writing_.reset();
  return failed;
}

}  // namespace paceline::coordinator
