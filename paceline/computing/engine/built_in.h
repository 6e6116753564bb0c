// The built-in models, for a program that may or may not have them: `paceline-torch` has them from train/,
// which needs libtorch; `paceline` does without.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/decisions/planner/profile.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::engine {

class BuiltIn {
 public:
  virtual ~BuiltIn() = default;

  enum class Use { kTrain, kEvaluate };
  // Reads the job's data once and builds its model `count` times, each on `threads` threads. Errors: what is
  // wrong with either.
  virtual absl::StatusOr<std::vector<std::unique_ptr<Engine>>> make(const config::JobConfig& job, Use use,
                                                                    int threads, int count) const = 0;
  // Measures a model for the planner. Takes about a second. No shape and 0 classes: the model's defaults.
  virtual absl::StatusOr<planner::ModelProfile> profile(const config::ModelConfig& model,
                                                        const std::vector<std::int64_t>& sample_shape,
                                                        std::int64_t classes) const = 0;
  // Measures the job's model on the job's data.
  virtual absl::StatusOr<planner::ModelProfile> profile(const config::JobConfig& job) const = 0;
  // The job's data in a line that is the same on machines that have the same.
  virtual absl::StatusOr<std::string> describe_data(const config::JobConfig& job) const = 0;
  // The libtorch that computes here, in a line.
  virtual std::string describe_libtorch() const = 0;
};

// Null in a program that has none.
const BuiltIn* built_in();
// To be called at its start by a program that has them. They outlive the process's use of them.
void use_built_in(const BuiltIn& models);
// The error of a program without built-in models when it needs one.
absl::Status no_built_in_models();

}  // namespace paceline::engine
