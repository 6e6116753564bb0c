// The checkpoints of a run. Each takes these steps: requested → its folder is open → every server writes its
// shard → it counts. If a step fails, its files are removed when all servers have answered, and another
// checkpoint may be requested. Pure.
//
// Invariant: only one checkpoint is written at a time, and a version counts only once. A request meanwhile is
// ignored, because the next one comes soon enough.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/controller_state.h"
#include "paceline/decisions/coordinator/actions.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/process_orders.h"

namespace paceline::coordinator {

class Checkpoints {
 public:
  // `newest`: the version that is on disk already, if one is. The outbox outlives this.
  Checkpoints(std::size_t servers, std::function<void(const ServerOrder&)> tell_servers, Outbox& out,
              std::optional<Version> newest);

  void request(control::ControllerState state, Duration elapsed);
  // The next functions return the version that ends there and why it could not be written, or nothing.
  struct Failed {
    Version version;
    absl::Status why;
  };
  std::optional<Failed> opened(const absl::StatusOr<std::string>& folder);
  // The server has written its shard, or could not.
  std::optional<Failed> written(ServerId server, const ServerWritten& message);
  std::optional<Failed> counted(const absl::Status& status);
  // The run has failed, or saves its remaining copies: no more waiting, and no more messages.
  void forget() { writing_.reset(); }

  // True while a folder was asked for and `opened` is still to come, even after `forget`.
  bool opening() const { return opening_; }
  // True while a checkpoint is under way.
  bool writing() const { return writing_.has_value(); }
  // The version that the server still has to write, if there is one.
  std::optional<Version> awaited(ServerId server) const {
    if (!writing_ || opening_ || writing_->answered.contains(server)) return std::nullopt;
    return writing_->version;
  }
  // The newest version that counts.
  std::optional<Version> newest() const { return newest_; }

 private:
  struct Writing {
    Version version;
    control::ControllerState state;  // kept until all have answered
    Duration elapsed{0};
    std::set<ServerId> answered{};
    absl::Status status{};  // the first error
  };

  Failed fail(const absl::Status& why);

  const std::size_t servers_;
  const std::function<void(const ServerOrder&)> tell_servers_;
  Outbox& out_;
  std::optional<Writing> writing_;
  bool opening_ = false;
  std::optional<Version> newest_;
};

}  // namespace paceline::coordinator
