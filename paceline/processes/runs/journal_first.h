// A sink of checkpoints that completes the journal first: a checkpoint counts only when the journal has
// everything that led to it, so that the record of a resumed run has no gap. It stands before the sink that
// writes; one thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/checkpoint_sink.h"

namespace paceline::runs {

class JournalFirst final : public store::CheckpointSink {
 public:
  // `note`: makes the journal durable, with that state in it. `next` outlives this.
  JournalFirst(std::function<absl::Status(const control::ControllerState&)> note, store::CheckpointSink& next)
      : note_(std::move(note)), next_(next) {}

  absl::StatusOr<std::string> begin(Version version) override { return next_.begin(version); }
  absl::Status finish(const control::ControllerState& state, Duration elapsed) override {
    PACELINE_RETURN_IF_ERROR(note_(state));
    return next_.finish(state, elapsed);
  }
  void give_up() override { next_.give_up(); }

 private:
  const std::function<absl::Status(const control::ControllerState&)> note_;
  store::CheckpointSink& next_;
};

}  // namespace paceline::runs
