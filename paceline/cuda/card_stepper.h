// Steps a shard in a card's memory: the optimizer's state lies there, and one kernel makes a version. The
// kernels' arithmetic is that of the host (ps/step_math.h), so the bytes are the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/cuda/card.h"
#include "paceline/cuda/kernel_arguments.h"
#include "paceline/ps/stepper.h"

namespace paceline::cuda {

class CardStepper final : public ps::Stepper {
 public:
  // Whether a card can step what this plan says; if not, the reason.
  static absl::Status can_step(const ps::OptimizerConfig& optimizer);

  // The plan outlives this. Errors: can_step(); the card has no room for the state.
  static absl::StatusOr<std::unique_ptr<CardStepper>> create(std::shared_ptr<Card> card,
                                                             const ps::StepPlan& plan);
  ~CardStepper() override;

  absl::Status set_state(ps::StateStreams state) override;
  absl::StatusOr<ps::StateStreams> state(bool before) const override;
  absl::StatusOr<bool> begin(std::span<const float> weights, std::span<const ps::StepNumbers> numbers,
                             std::span<float> buffer) override;
  absl::Status copy_constants(std::span<const float> from, std::span<float> to) override;
  absl::StatusOr<bool> step(const Step& step) override;
  absl::Status read(std::span<const float> from, std::span<float> to) const override;
  int threads() const override { return 1; }

 private:
  CardStepper(std::shared_ptr<Card> card, CardStream stream, const ps::StepPlan& plan)
      : card_(std::move(card)), stream_(std::move(stream)), plan_(plan) {}
  absl::Status load_kernels();
  absl::Status make_state();
  absl::Status make_tables();
  template <class Argument>
  absl::Status launch(Function kernel, unsigned blocks, unsigned threads, Argument argument) const;
  absl::Status write_members(const ps::Update& update);
  absl::Status write_numbers(std::span<const ps::StepNumbers> numbers);
  // Writes the factor that clips the members' gradient to the card.
  absl::Status clip(const ps::Update& update);
  UpdateArguments arguments(const float* latest, std::span<float> next) const;
  // Waits for all work, and returns whether no kernel found a number that is not finite.
  absl::StatusOr<bool> finite() const;

  const std::shared_ptr<Card> card_;
  const CardStream stream_;
  const ps::StepPlan& plan_;
  Module module_ = nullptr;
  Function step_ = nullptr, direction_ = nullptr, finite_ = nullptr;
  Function lanes_ = nullptr, blocks_ = nullptr, groups_ = nullptr, factor_ = nullptr;
  CardMemory state_;   // the streams, one after the other
  CardMemory tables_;  // pieces, blocks of squares, and room for what changes with each step
  std::size_t members_room_ = 0;
  CardMemory members_;
  // Places in tables_.
  DevicePointer pieces_at_ = 0, blocks_at_ = 0, numbers_at_ = 0, marks_at_ = 0;
  DevicePointer lanes_at_ = 0, squares_at_ = 0, groups_at_ = 0, total_at_ = 0, factor_at_ = 0;
  std::int32_t piece_count_ = 0, block_count_ = 0, group_count_ = 0;
};

}  // namespace paceline::cuda
