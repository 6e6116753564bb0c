#include "paceline/computing/train/built_in_engine.h"

#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/train/built_in_stage.h"
#include "paceline/computing/train/stage.h"
#include "paceline/computing/train/threads.h"

namespace paceline::train {

absl::StatusOr<std::unique_ptr<BuiltInEngine>> BuiltInEngine::create(const config::JobConfig& job,
                                                                     std::shared_ptr<const DataSets> data,
                                                                     bool evaluates, int threads) {
  std::unique_ptr<BuiltInEngine> made(new BuiltInEngine(job, std::move(data), evaluates, threads));
  made->enter_thread();
  const DataSet& shape = made->shaped_like_;
  PACELINE_ASSIGN_OR_RETURN(made->units_, unit_count(job.model, shape.sample_shape(), shape.classes()));
  PACELINE_RETURN_IF_ERROR(made->build());
  made->layout_ = made->local_model_->layout();
  return made;
}

BuiltInEngine::BuiltInEngine(const config::JobConfig& job, std::shared_ptr<const DataSets> data,
                             bool evaluates, int threads)
    : model_(job.model),
      seed_(job.seed),
      data_(std::move(data)),
      shaped_like_(evaluates ? *data_->test : *data_->train),
      threads_(threads) {}

void BuiltInEngine::enter_thread() { use_threads(threads_); }

absl::Status BuiltInEngine::build() {
  if (local_model_ != nullptr) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(
      local_model_, LocalModel::create(model_, shaped_like_.sample_shape(), shaped_like_.classes(), seed_));
  return absl::OkStatus();
}

absl::Status BuiltInEngine::initial_weights(std::span<float> out) {
  PACELINE_RETURN_IF_ERROR(build());
  local_model_->initial_weights(out);
  return absl::OkStatus();
}

absl::Status BuiltInEngine::prepare(const engine::Batch& batch) {
  PACELINE_RETURN_IF_ERROR(data_->train->check_unchanged());
  batch_ = data_->train->batch(batch.samples, batch.augment_seed);
  step_seed_ = batch.step_seed;
  return absl::OkStatus();
}

absl::StatusOr<StepResult> BuiltInEngine::step(const engine::Weights& weights,
                                               std::span<float* const> gradients, std::int64_t micro_batch,
                                               const engine::KeepGoing&) {
  PACELINE_RETURN_IF_ERROR(build());
  PACELINE_CHECK(!weights.on_card, "built-in models compute in the host's memory");
  return local_model_->step(batch_, weights.tensors, gradients, step_seed_, micro_batch);
}

absl::StatusOr<Evaluation> BuiltInEngine::evaluate(std::span<const float* const> weights, std::int64_t chunk,
                                                   const engine::KeepGoing& keep_going) {
  PACELINE_RETURN_IF_ERROR(build());
  return local_model_->evaluate(*data_->test, weights, chunk, keep_going);
}

absl::StatusOr<std::unique_ptr<engine::Stage>> BuiltInEngine::make_stage(std::int64_t begin,
                                                                         std::int64_t end) {
  PACELINE_ASSIGN_OR_RETURN(auto stage, BuiltInStage::create(model_, *data_->train, {begin, end}));
  local_model_.reset();
  return stage;
}

}  // namespace paceline::train
