#include "paceline/computing/train/prepared.h"

#include <utility>
#include <vector>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/built_in_engine.h"

namespace paceline::train {

namespace {

// A larger model's own step would take longer than it saves, and its memory is not libtorch's tables.
constexpr std::int64_t kLargestToStep = 4 << 20;  // floats

struct Prepared {
  config::DataConfig data;
  std::int64_t context = 0;
  std::shared_ptr<const DataSets> sets;
};
Prepared g_prepared;

// About the size of a model whose width the job chooses; a large one takes seconds to build.
std::int64_t chosen_size(const config::ModelConfig& model) {
  return 12 * model.layers * model.width * model.width;
}

// Steps on one sample, from weights of zero, to do the work that libtorch does only at the first time.
absl::Status step_once(const config::JobConfig& job, const std::shared_ptr<const DataSets>& data) {
  constexpr int kOneThread = 1;
  if (chosen_size(job.model) > kLargestToStep) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const auto engine, BuiltInEngine::create(job, data, false, kOneThread));
  const ps::Layout& layout = engine->layout();
  if (layout.size() > kLargestToStep) return absl::OkStatus();
  std::vector<float> weights(static_cast<std::size_t>(layout.size()));
  std::vector<float> gradients(weights.size());
  PACELINE_RETURN_IF_ERROR(engine->prepare({.samples = {0}}));
  const auto weights_of = engine::tensor_pointers<const float>(layout, weights.data());
  const auto gradients_of = engine::tensor_pointers<float>(layout, gradients.data());
  return engine->step(weights_of, gradients_of, engine::kWholeBatch, [] { return true; }).status();
}

}  // namespace

void prepare_forks(const config::JobConfig& job) {
  auto read = data_of(job);
  if (!read.ok()) return;
  g_prepared = {job.data, job.model.context, *read};
  step_once(job, *read).IgnoreError();
}

absl::StatusOr<std::shared_ptr<const DataSets>> data_of(const config::JobConfig& job) {
  if (g_prepared.sets != nullptr && g_prepared.data == job.data && g_prepared.context == job.model.context)
    return g_prepared.sets;
  PACELINE_ASSIGN_OR_RETURN(DataSets read, load_data(job.data, job.model.context));
  return std::make_shared<const DataSets>(std::move(read));
}

}  // namespace paceline::train
