// A stage of a built-in model, as the messages between stages see it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/computing/engine/stage.h"
#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/stage.h"

namespace paceline::train {

class BuiltInStage final : public engine::Stage {
 public:
  // `data` outlives it. Errors: as Stage::create.
  static absl::StatusOr<std::unique_ptr<engine::Stage>> create(const config::ModelConfig& model,
                                                               const DataSet& data, UnitRange units);

  const ps::Layout& layout() const override { return stage_->layout(); }
  std::vector<ps::FloatRange> floats() const override { return stage_->floats(); }
  std::int64_t input_bytes(std::int64_t samples) const override;
  std::int64_t output_bytes(std::int64_t samples) const override;
  absl::Status prepare(const engine::Batch& batch) override;
  absl::Status start(std::span<const float* const> weights, std::span<float* const> gradients,
                     std::int64_t samples, std::int64_t micro_batch, std::uint64_t seed,
                     const engine::KeepGoing& keep_going) override;
  absl::Status receive_input(std::int64_t micro, std::span<const std::byte> message) override;
  absl::Status receive_gradient(std::int64_t micro, std::span<const std::byte> message) override;
  absl::StatusOr<std::size_t> send(std::span<std::byte> room) override;
  absl::StatusOr<double> forward(std::int64_t micro, const engine::KeepGoing& keep_going) override;
  absl::Status backward(std::int64_t micro, const engine::KeepGoing& keep_going) override;

 private:
  BuiltInStage(std::unique_ptr<train::Stage> stage, const DataSet& data, bool first, bool last)
      : stage_(std::move(stage)), data_(data), first_(first), last_(last) {}

  const std::unique_ptr<train::Stage> stage_;
  const DataSet& data_;
  const bool first_, last_;
  Batch batch_;
  std::optional<engine::MicroBatches> micros_;  // for the iteration under way
  torch::Tensor in_hand_;
};

}  // namespace paceline::train
