// The engine of a worker or an evaluator. It survives the loss of a coordinator: the data set need not be
// loaded again, and a program keeps running.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::compute {

class OwnEngine {
 public:
  enum class Use { kTrain, kEvaluate };
  // `job_file`: of this host, which says what it may start and read; empty: there is none (own_files.h).
  OwnEngine(Use use, std::string job_file) : use_(use), job_file_(std::move(job_file)) {}

  // The job in the coordinator's text, with the program and the files of this host. Errors: with_own_files()'s.
  absl::StatusOr<config::JobConfig> job_of(const std::string& job_toml) const;
  // For device `name` of such a job: the one that is there, if it computes the same, else a new one. Valid until
  // the next call. `run`: the run's name, if it is known. Errors: everything that can be wrong with the job on
  // this machine.
  absl::StatusOr<engine::Engine*> of(const config::JobConfig& job, const std::string& name, int threads,
                                     const std::string& run = "");
  // How often a process that has no order calls check_alive().
  static constexpr std::chrono::seconds kLook{1};
  // Engine::check_alive() of the engine, if there is one.
  absl::Status check_alive() { return engine_ == nullptr ? absl::OkStatus() : engine_->check_alive(); }
  // The job is over, or none was found (nothing happens then). `first`: as in Engine::end(). Errors: the engine's, and
  // the job is over all the same.
  absl::Status end(bool first);
  // Engine::too_few() of the engine. The next engine is then a new one.
  std::optional<engine::TooFew> too_few() const {
    return engine_ == nullptr ? std::nullopt : engine_->too_few();
  }
  // CRC-32 of each constant of the engine's layout. `weights`: what its model begins with. A program that is
  // asked again may have counted on; then it is what was there first.
  const std::vector<std::uint32_t>& constants(std::span<const float> weights);
  // Whether constants() does not look at the weights.
  bool knows_constants() const;

 private:
  absl::StatusOr<std::unique_ptr<engine::Engine>> make(const config::JobConfig& job, const std::string& name,
                                                       int threads, const std::string& run) const;

  const Use use_;
  const std::string job_file_;
  std::optional<config::JobConfig> job_;  // the job that the engine was made for
  int threads_ = 0;
  std::unique_ptr<engine::Engine> engine_;
  std::optional<std::vector<std::uint32_t>> constants_;
  std::int64_t computed_ = 0;  // TooFew::computed of an engine before this one
};

}  // namespace paceline::compute
