// A built-in model on one of the standard data sets, as an engine.
#pragma once

#include <memory>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/local_model.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::train {

class BuiltInEngine final : public engine::Engine {
 public:
  // `evaluates`: the test set's shape is what the model is built for. `threads`: libtorch's, within an
  // operation. Errors: as make_model.
  static absl::StatusOr<std::unique_ptr<BuiltInEngine>> create(const config::JobConfig& job,
                                                               std::shared_ptr<const DataSets> data,
                                                               bool evaluates, int threads);

  void enter_thread() override;
  const ps::Layout& layout() const override { return layout_; }
  std::int32_t samples() const override { return data_->train->size(); }
  std::string digest() const override { return fmt::format("{:016x}", data_->train->digest()); }
  std::string note() const override { return data_->note; }
  std::int64_t units() const override { return units_; }
  absl::Status initial_weights(std::span<float> out) override;
  absl::Status prepare(const engine::Batch& batch) override;
  absl::StatusOr<StepResult> step(const engine::Weights& weights, std::span<float* const> gradients,
                                  std::int64_t micro_batch, const engine::KeepGoing& keep_going) override;
  absl::StatusOr<Evaluation> evaluate(std::span<const float* const> weights, std::int64_t chunk,
                                      const engine::KeepGoing& keep_going) override;
  absl::StatusOr<std::unique_ptr<engine::Stage>> make_stage(std::int64_t begin, std::int64_t end) override;

 private:
  BuiltInEngine(const config::JobConfig& job, std::shared_ptr<const DataSets> data, bool evaluates,
                int threads);
  absl::Status build();

  const config::ModelConfig model_;
  const std::uint64_t seed_;
  const std::shared_ptr<const DataSets> data_;
  const DataSet& shaped_like_;
  const int threads_;
  ps::Layout layout_;
  std::int64_t units_ = 1;
  std::unique_ptr<LocalModel> local_model_;  // null while this process runs a stage
  Batch batch_;
  std::uint64_t step_seed_ = 0;
};

}  // namespace paceline::train
