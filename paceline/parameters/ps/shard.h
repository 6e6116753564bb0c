// One shard: a part of the model's weights and optimizer state, brought from version to version by the commit
// log.
//
// Invariant: version v is the start plus commits 1..v, each applied once and in order. A commit that
// was applied before changes nothing, so sending one again is harmless. The published weights of a version
// never change while a process reads them. Constants are the bytes that start() was given, in every version:
// they are copied into a buffer of the board when it is used first, and no commit spends time on them. Where
// replicas look ahead, a version's direction (where its update went, UpdateStreams::direction) is published
// behind its weights, and so are the weights of narrow tensors as bfloat16 (board_buffer.h). A prepared
// version is not visible, and the previous one stays whole, until it is published. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/parameters/ps/board_buffer.h"
#include "paceline/parameters/ps/kept_state.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/parameter_groups.h"
#include "paceline/parameters/ps/step_plan.h"
#include "paceline/parameters/ps/stepper.h"
#include "paceline/parameters/ps/update.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::ps {

// The state of a shard for a restart, except the weights.
struct OptimizerState {
  std::vector<std::vector<float>> streams;  // state_streams() of layout().size() floats each
  double fractions = 0;                     // Σ f over the updates so far
};

class Shard {
 public:
  // The floats in a buffer of the board.
  static std::int64_t board_floats(const Layout& layout, bool look_ahead) {
    return ps::board_floats(layout, look_ahead);
  }
  // A shard in the host's memory, stepped on so many threads. `board` holds board_floats() a buffer; by their number
  // the shard knows whether replicas look ahead. StepPlan::of() says the rest.
  Shard(Layout layout, OptimizerConfig optimizer, memory::WeightWriter board, int threads,
        std::span<const ParameterGroup> groups = {}, const std::optional<WholeModel>& whole = {},
        std::optional<KeptState> state = std::nullopt);
  // A shard in the memory that `stepper` steps, which has the board's buffers and this plan.
  Shard(std::unique_ptr<const StepPlan> plan, memory::WeightWriter board, std::unique_ptr<Stepper> stepper);

  // Publishes `weights` as `version`. Requires: before the first apply, and after restore_optimizer() if that
  // is called; sizes as the layout says. Errors: those of the memory.
  absl::Status start(Version version, std::span<const float> weights);
  // In the place of start(): goes on from the board's latest version, which an earlier process published, and from what
  // that process made of the next one. Errors: those of Stepper::take_up().
  absl::Status take_up();
  // Requires: before start(). Errors: InvalidArgument when the sizes are not this model's; those of the memory.
  absl::Status restore_optimizer(OptimizerState state);

  // Makes version v of v − 1 and publishes it. Errors: FailedPrecondition when a commit before it is missing;
  // InvalidArgument for differences if the optimizer is not SGD; OutOfRange if only_finite and it is
  // not; those of Update::arrival and of the memory.
  absl::Status apply(const Update& update);
  // The same in two steps, where it is not certain yet that there will be this version. An error leaves the
  // shard as it was. Requires: no other version is prepared.
  absl::Status prepare(const Update& update);
  // Requires: a version is prepared.
  void publish();

  Version version() const { return board_.version(); }
  // Places of the latest version's weights, and of those of one that the board keeps: read() reads them, and the
  // processor can if they are in the host's memory.
  std::span<const float> weights() const { return weights_of(board_.latest()); }
  std::span<const float> kept_weights(Version version) const { return weights_of(board_.kept(version)); }
  // The places of the latest version's direction; empty when nobody looks ahead.
  std::span<const float> direction() const { return direction_in(layout(), board_.latest()); }
  // Places of the latest version's narrow tensors, as programs read them; null if there are none.
  const Bfloat16* narrow_weights() const { return narrow_in(layout(), board_.latest()); }
  // The numbers at these places, of the board or of a gradient. Errors: those of the memory.
  absl::StatusOr<std::vector<float>> read(std::span<const float> floats) const;
  // The same, into memory of the host of the same size.
  absl::Status read_into(std::span<const float> floats, std::span<float> to) const {
    return stepper_->read(floats, to);
  }
  // The shard's part of a whole model's gradient, as host_gradient() has one of its own layout. `offset`: floats of the model before
  // the shard. Errors: the same.
  absl::StatusOr<std::vector<float>> read_gradient(const GradientPlace& whole, std::int64_t offset) const;
  // The state of the latest version. Errors: those of the memory.
  absl::StatusOr<OptimizerState> read_state() const;
  // The same. Requires: the shard is in the host's memory.
  OptimizerState optimizer_state() const { return *read_state(); }
  const Layout& layout() const { return plan_->layout; }
  int threads() const { return stepper_->threads(); }
  // Whether its weights, statistics and optimizer state are finite numbers: of the version that is prepared
  // if one is, else of version(). Constants are not looked at, nor is the state that a restart brought.
  // Padding is: it stays 0 as long as that of the gradients is.
  bool finite() const { return finite_; }
  memory::WeightWriter& board() { return board_; }
  const memory::WeightWriter& board() const { return board_; }

 private:
  template <class Float>
  std::span<Float> weights_of(std::span<Float> buffer) const {
    return buffer.first(static_cast<std::size_t>(layout().size()));
  }
  absl::Status check(const Update& update) const;
  // One for each optimizer of the plan.
  std::vector<StepNumbers> numbers_of(double learning_rate, double fraction) const;
  // A buffer for the next version, with the constants in it.
  absl::StatusOr<std::span<float>> take_buffer();
  absl::Status make(const Update& update, bool undoable);
  absl::StatusOr<bool> step(const Update& update, std::span<const StepNumbers> numbers, bool undoable);

  std::unique_ptr<const StepPlan> plan_;
  std::vector<const float*> with_constants_;  // buffers of the board
  memory::WeightWriter board_;
  std::unique_ptr<Stepper> stepper_;
  double fractions_ = 0;         // Σ f over the updates so far
  double fractions_before_ = 0;  // the same, of the version before
  std::optional<Version> prepared_;
  bool finite_ = true;
  bool begun_ = false;  // an earlier process has made a part of the next version
};

}  // namespace paceline::ps
