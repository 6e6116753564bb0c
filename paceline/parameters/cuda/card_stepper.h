// Steps a shard in a card's memory: the optimizer's state lies there, and one kernel makes a version. The
// kernels' arithmetic is that of the host (ps/step_math.h), so the bytes are the same.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/parameters/cuda/card.h"
#include "paceline/parameters/cuda/card_kernels.h"
#include "paceline/parameters/cuda/card_state.h"
#include "paceline/parameters/cuda/card_tensors.h"
#include "paceline/parameters/cuda/kernel_arguments.h"
#include "paceline/parameters/ps/stepper.h"

namespace paceline::cuda {

class CardStepper final : public ps::Stepper {
 public:
  // A state that outlives the process.
  struct Kept {
    std::uint64_t identity = 0;  // a number for the shard, its run and its attempt
    std::optional<CardState::Left>
        left{};                     // an earlier process's with the same plan; nothing: the state is zero
    std::int64_t chunk_floats = 0;  // CardStateShape::in_slots() says what
  };
  // The plan outlives this. `kept`: nothing if the state ends with this. Requires: not `kept` if the optimizer steps
  // whole tensors. Errors: the card has no room for the state; those of CardState::adopt().
  static absl::StatusOr<std::unique_ptr<CardStepper>> create(std::shared_ptr<Card> card,
                                                             const ps::StepPlan& plan,
                                                             std::optional<Kept> kept = std::nullopt);
  ~CardStepper() override;

  absl::Status set_state(ps::StateStreams state) override;
  absl::StatusOr<ps::StateStreams> state(bool before) const override;
  absl::StatusOr<bool> begin(std::span<const float> weights, std::span<const ps::StepNumbers> numbers,
                             std::span<float> buffer) override;
  absl::Status copy_constants(std::span<const float> from, std::span<float> to) override;
  absl::StatusOr<bool> step(const Step& step) override;
  void start_at(Version version, double fractions) override { state_->start(version, fractions); }
  absl::StatusOr<ps::KeptState::Left> take_up(Version published) override {
    return state_->take_up(published);
  }
  absl::Status read(std::span<const float> from, std::span<float> to) const override;
  int threads() const override { return 1; }

  const CardState& state_memory() const { return *state_; }

 private:
  CardStepper(std::shared_ptr<Card> card, CardStream stream, CardStream reads, const ps::StepPlan& plan)
      : card_(std::move(card)), stream_(std::move(stream)), reads_(std::move(reads)), plan_(plan) {}
  absl::Status make_state(std::span<const Piece> pieces, std::optional<Kept> kept);
  absl::Status make_tables(std::span<const Piece> pieces);
  // Takes what a step needs of the card: other processes may fill it before the first step.
  absl::Status prepare_steps();
  absl::Status write_members(const ps::Update& update);
  absl::Status write_numbers(std::span<const ps::StepNumbers> numbers);
  // Writes the weights of narrow tensors into a buffer, as programs read them.
  absl::Status write_narrow(std::span<const float> weights, std::span<float> buffer);
  // Writes the direction of the state as it is into a buffer.
  absl::Status write_direction(std::span<const ps::StepNumbers> numbers, std::span<float> buffer);
  // Writes the factor that clips the members' gradient to the card.
  absl::Status clip(const ps::Update& update);
  // The arguments of a kernel for a part of the state, but for what it reads of members.
  UpdateArguments arguments(const CardState::Place& place, const float* latest, std::span<float> next) const;
  // Waits for all work, and returns whether no kernel found a number that is not finite.
  absl::StatusOr<bool> finite() const;

  const std::shared_ptr<Card> card_;
  const CardStream stream_;
  // A checkpoint takes long to read a version. In a stream of its own it does not hold up the next version's kernels.
  const CardStream reads_;
  const ps::StepPlan& plan_;
  std::optional<CardKernels> kernels_;
  std::optional<CardState> state_;
  CardMemory tables_;  // pieces, blocks of squares, and room for what changes with each step
  CardMemory members_;
  // Values that are copied to the card at the beginning of a step; they are kept until its end.
  std::vector<MemberArgument> members_here_;
  std::vector<ps::StepNumbers> numbers_here_;
  UpdateArguments update_;  // places in tables_
  SquaresArguments squares_;
  ClipArguments clip_;
  std::optional<CardTensors> tensors_;  // if the optimizer steps whole tensors
};

}  // namespace paceline::cuda
