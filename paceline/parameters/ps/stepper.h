// Computes a shard's versions in the memory in which the shard lies: the host's (host_stepper.h) or a card's
// (cuda/card_stepper.h). It has the optimizer's state, and is given the board's buffers. Pointers to buffers
// and to gradients name places in that memory; nobody but the stepper reads them.
//
// Every stepper makes the same bytes of the same gradients. One thread.
#pragma once

#include <span>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/ps/kept_state.h"
#include "paceline/parameters/ps/step_plan.h"
#include "paceline/parameters/ps/update.h"

namespace paceline::ps {

// Floats for each weight, as many vectors as state_streams() says, each of layout.size().
using StateStreams = std::vector<std::vector<float>>;

class Stepper {
 public:
  virtual ~Stepper() = default;

  // The state from now on. Requires: it fits the plan.
  virtual absl::Status set_state(StateStreams state) = 0;
  // The state of the latest version that was not undone; `before`: of the one before it, which undo() would
  // bring back.
  virtual absl::StatusOr<StateStreams> state(bool before) const = 0;

  // Writes a first version's weights to a buffer, which is zero or holds an earlier version. If `numbers` are
  // given, the direction of the state as it is follows them. Returns whether what commits change is finite.
  virtual absl::StatusOr<bool> begin(std::span<const float> weights, std::span<const StepNumbers> numbers,
                                     std::span<float> buffer) = 0;
  // Copies the constants of one buffer into another.
  virtual absl::Status copy_constants(std::span<const float> from, std::span<float> to) = 0;

  struct Step {
    const Update& update;
    // one for each optimizer of the plan, without the factor that clips
    std::span<const StepNumbers> numbers;
    std::span<const float> latest;  // the buffer of version v − 1
    std::span<float> next;          // the buffer of version v; its constants are there
    bool undoable = false;          // undo() may follow
    double fractions = 0;           // sum of the fractions of all updates up to this one
  };
  // Makes a version. Returns whether its weights, statistics and state are finite. Errors: those of
  // Update::arrival and Update::squares_of_all; of the card. An undoable step is then undone.
  virtual absl::StatusOr<bool> step(const Step& step) = 0;

  // The state as it is belongs to a first version, which is about to be published. `fractions`: the sum of the fractions
  // of the updates so far.
  virtual void start_at(Version, double /*fractions*/) {}
  // In the place of start_at(): goes on with the state that an earlier process left. `published`: the board's version.
  // Errors: FailedPrecondition if the state ended with that process; those of KeptState::take_up().
  virtual absl::StatusOr<KeptState::Left> take_up(Version /*published*/) {
    return absl::FailedPreconditionError("the state of this shard's optimizer ended with its process");
  }

  // Floats of a buffer or a gradient, in the host's memory.
  virtual absl::Status read(std::span<const float> from, std::span<float> to) const = 0;
  // The threads that it steps with; 1 for a card.
  virtual int threads() const = 0;
};

}  // namespace paceline::ps
