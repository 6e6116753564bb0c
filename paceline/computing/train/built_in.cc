#include "paceline/computing/train/built_in.h"

#include <fmt/format.h>

#include "paceline/base/rng.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/train/built_in_engine.h"
#include "paceline/computing/train/devices.h"
#include "paceline/computing/train/prepared.h"
#include "paceline/computing/train/profile.h"
#include "paceline/computing/train/threads.h"

namespace paceline::train {

namespace {

using engine::BuiltIn;
using engine::Engine;

class BuiltInModels final : public BuiltIn {
 public:
  absl::StatusOr<std::vector<std::unique_ptr<Engine>>> make(const config::JobConfig& job, Use use,
                                                            int threads, int count) const override {
    use_threads(threads);
    PACELINE_ASSIGN_OR_RETURN(const auto data, data_of(job));
    std::vector<std::unique_ptr<Engine>> engines(static_cast<std::size_t>(count));
    for (auto& engine : engines) {
      PACELINE_ASSIGN_OR_RETURN(engine, BuiltInEngine::create(job, data, use == Use::kEvaluate, threads));
      PACELINE_RETURN_IF_ERROR(config::check_units(job.parallel, job.model.name, engine->units()));
    }
    return engines;
  }

  absl::StatusOr<planner::ModelProfile> profile(const config::ModelConfig& model,
                                                const std::vector<std::int64_t>& sample_shape,
                                                std::int64_t classes) const override {
    return profile_model(model, sample_shape, classes);
  }

  absl::StatusOr<planner::ModelProfile> profile(const config::JobConfig& job) const override {
    PACELINE_ASSIGN_OR_RETURN(const auto data, data_of(job));
    use_threads(job.devices.front().threads);
    return profile_model(job.model, data->train->sample_shape(), data->train->classes());
  }

  absl::StatusOr<std::string> describe_data(const config::JobConfig& job) const override {
    PACELINE_ASSIGN_OR_RETURN(const auto data, data_of(job));
    return fmt::format("{} samples and {} to test with, {:016x}", data->train->size(), data->test->size(),
                       mix_seed({data->train->digest(), data->test->digest()}));
  }

  std::string describe_libtorch() const override {
    const Devices found = devices();
    return fmt::format("{}, {} CUDA device{}", found.version, found.cuda, found.cuda == 1 ? "" : "s");
  }
};

}  // namespace

const engine::BuiltIn& built_in_models() {
  static const BuiltInModels models;
  return models;
}

}  // namespace paceline::train
