// The checkpoints of a run that trains. Some are due, some are asked for, and one that failed is tried again. People are
// told of the last two. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/decisions/coordinator/checkpoint_retries.h"
#include "paceline/decisions/coordinator/checkpoints.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/process_orders.h"

namespace paceline::coordinator {

class RunCheckpoints {
 public:
  // See Checkpoints.
  RunCheckpoints(std::size_t servers, std::function<void(const ServerOrder&)> tell_servers, Outbox& out,
                 std::optional<Version> newest)
      : out_(out), checkpoints_(servers, std::move(tell_servers), out, newest) {}

  // `elapsed`: the job's time.
  void write(control::ControllerState state, Duration elapsed, SteadyTime at);
  // Whether it is time to try again.
  bool due(SteadyTime at) const { return !ends_ && retries_.due(at); }
  // Whether a try failed, and it is too early for the next one.
  bool waits(SteadyTime at) const { return retries_.waiting(at); }

  // Asks for a checkpoint. `why`: a few words for people. No effect once the run ends.
  void want(const std::string& why);
  // Whether a checkpoint was asked for and may be written now. `version`: the newest. A checkpoint that is under way may
  // be of an older version, so the new one waits for its end, and for the first commit.
  bool is_wanted(Version version, SteadyTime at);

  // The run ends: the last checkpoint is tried at once, and a few times.
  void end();
  // The run has failed, or saves its remaining copies: nothing is written any more.
  void forget();

  // These functions return an error if the last checkpoint cannot be written.
  absl::Status opened(const absl::StatusOr<std::string>& folder, SteadyTime at);
  absl::Status written(ServerId server, const ServerWritten& message, SteadyTime at);
  // `time`: the job's. Requires: writing().
  absl::Status counted(const absl::Status& status, SteadyTime at, Time time);
  // Files that a server was writing end with it.
  absl::Status lost(ServerId server, const std::string& why, SteadyTime at);

  // See Checkpoints.
  bool opening() const { return checkpoints_.opening(); }
  bool writing() const { return checkpoints_.writing(); }
  std::optional<Version> newest() const { return checkpoints_.newest(); }

 private:
  absl::Status failed(const std::optional<Checkpoints::Failed>& failed, SteadyTime at);
  void fulfil_wish(const std::string& how);

  Outbox& out_;
  Checkpoints checkpoints_;
  CheckpointRetries retries_;
  std::optional<std::string> wanted_;  // the reason for which one is wanted
  SteadyTime since_{};                 // start of the one that is under way
  bool ends_ = false;
};

}  // namespace paceline::coordinator
