#include "paceline/computing/train/built_in_stage.h"

#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/micro_batches.h"
#include "paceline/computing/train/tensor_bytes.h"

namespace paceline::train {

absl::StatusOr<std::unique_ptr<engine::Stage>> BuiltInStage::create(const config::ModelConfig& model,
                                                                    const DataSet& data, UnitRange units) {
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t all, unit_count(model, data.sample_shape(), data.classes()));
  PACELINE_ASSIGN_OR_RETURN(auto stage,
                            train::Stage::create(model, data.sample_shape(), data.classes(), units));
  return std::unique_ptr<engine::Stage>(
      new BuiltInStage(std::move(stage), data, units.begin == 0, units.end == all));
}

std::int64_t BuiltInStage::input_bytes(std::int64_t samples) const {
  return tensor_bytes(stage_->input_shape(), samples);
}

std::int64_t BuiltInStage::output_bytes(std::int64_t samples) const {
  return tensor_bytes(stage_->output_shape(), samples);
}

// Only the first stage and the last need the data.
absl::Status BuiltInStage::prepare(const engine::Batch& batch) {
  if (!first_ && !last_) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(data_.check_unchanged());
  batch_ = data_.batch(batch.samples, batch.augment_seed);
  return absl::OkStatus();
}

absl::Status BuiltInStage::start(std::span<const float* const> weights, std::span<float* const> gradients,
                                 std::int64_t samples, std::int64_t micro_batch, std::uint64_t seed,
                                 const engine::KeepGoing&) {
  micros_.emplace(samples, micro_batch);
  return stage_->start(weights, gradients, seed);
}

absl::Status BuiltInStage::receive_input(std::int64_t micro, std::span<const std::byte> message) {
  PACELINE_ASSIGN_OR_RETURN(in_hand_, read_tensor(message, stage_->input_shape(), micros_->size(micro)));
  return absl::OkStatus();
}

absl::Status BuiltInStage::receive_gradient(std::int64_t micro, std::span<const std::byte> message) {
  PACELINE_ASSIGN_OR_RETURN(in_hand_, read_tensor(message, stage_->output_shape(), micros_->size(micro)));
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> BuiltInStage::send(std::span<std::byte> room) {
  return write_tensor(in_hand_, room);
}

absl::StatusOr<double> BuiltInStage::forward(std::int64_t micro, const engine::KeepGoing&) {
  const torch::Tensor input = first_ ? micro_batch(*micros_, batch_.inputs, micro) : in_hand_;
  const double share = micros_->share(micro);
  if (last_) {
    in_hand_ = torch::Tensor();
    return stage_->forward(micro, input, micro_batch(*micros_, batch_.targets, micro), share);
  }
  PACELINE_ASSIGN_OR_RETURN(in_hand_, stage_->forward(micro, input, share));
  return 0;
}

absl::Status BuiltInStage::backward(std::int64_t micro, const engine::KeepGoing&) {
  PACELINE_ASSIGN_OR_RETURN(in_hand_, stage_->backward(micro, in_hand_));
  return absl::OkStatus();
}

}  // namespace paceline::train
