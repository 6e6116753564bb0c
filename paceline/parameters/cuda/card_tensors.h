// The steps of optimizers that step whole tensors (LARS, LAMB, Adafactor) on a card.
#pragma once

#include <memory>

#include <absl/status/statusor.h>

#include "paceline/parameters/cuda/card.h"
#include "paceline/parameters/cuda/card_kernels.h"
#include "paceline/parameters/cuda/kernel_arguments.h"
#include "paceline/parameters/ps/step_plan.h"

namespace paceline::cuda {

class CardTensors {
 public:
  // The plan, the stream and the kernels outlive this. Errors: the card has no room for its tables.
  static absl::StatusOr<CardTensors> create(std::shared_ptr<Card> card, const CardStream& stream,
                                            CardKernels& kernels, const ps::StepPlan& plan);

  // Launches a step. `update` has everything but its pieces.
  absl::Status step(const UpdateArguments& update);

 private:
  CardTensors(const CardStream& stream, CardKernels& kernels, const ps::StepPlan& plan)
      : stream_(&stream), kernels_(&kernels), plan_(&plan) {}
  absl::Status make(std::shared_ptr<Card> card);
  // Sums the squares of each block of the values.
  absl::Status find_squares(const float* values, double* squares);

  const CardStream* stream_;
  CardKernels* kernels_;
  const ps::StepPlan* plan_;
  CardMemory tables_;
  TensorArguments all_;  // arguments that do not change from step to step
  double *weight_squares_ = nullptr, *step_squares_ = nullptr;  // the pointers of all_, to be written through
  SquaresArguments squares_;                                    // the same
  DevicePointer member_ = 0;                                    // one MemberArgument, of weight 1
};

}  // namespace paceline::cuda
