#include "paceline/processes/compute/own_engine.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/engine/built_in.h"
#include "paceline/computing/program/program_engine.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/processes/compute/own_files.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::compute {

namespace {

// Whether an engine that was made for one job computes the same for the other.
bool computes_the_same(const config::JobConfig& one, const config::JobConfig& other) {
  return one.program == other.program && one.model == other.model && one.data == other.data &&
         one.seed == other.seed && one.devices.size() == other.devices.size() &&
         one.parallel.of_stages() == other.parallel.of_stages() &&
         config::takes_bfloat16(one) == config::takes_bfloat16(other);
}

}  // namespace

absl::StatusOr<config::JobConfig> OwnEngine::job_of(const std::string& job_toml) const {
  PACELINE_ASSIGN_OR_RETURN(config::JobConfig job, config::parse_job(job_toml, "job.toml"));
  return with_own_files(std::move(job), job_file_);
}

absl::StatusOr<engine::Engine*> OwnEngine::of(const config::JobConfig& job, const std::string& name,
                                              int threads, const std::string& run) {
  const bool fits = engine_ != nullptr && !too_few() && threads == threads_ && computes_the_same(job, *job_);
  if (!fits) {
    if (const auto few = too_few()) computed_ = few->computed;
    engine_.reset();
    constants_.reset();
    PACELINE_ASSIGN_OR_RETURN(engine_, make(job, name, threads, run));
    job_ = job;
    threads_ = threads;
  }
  return engine_.get();
}

absl::Status OwnEngine::end(bool first) {
  if (engine_ == nullptr) return absl::OkStatus();
  const absl::Status ended = engine_->end(first);
  return ended.ok() ? ended : with_exit_reason(ended, ExitReason::kDone);
}

const std::vector<std::uint32_t>& OwnEngine::constants(std::span<const float> weights) {
  if (constants_) return *constants_;
  constants_.emplace();
  for (const ps::TensorSpec& tensor : engine_->layout().tensors()) {
    if (tensor.kind != ps::TensorKind::kConstant) continue;
    const auto bytes = std::as_bytes(
        weights.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size)));
    constants_->push_back(
        static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size())));
  }
  return *constants_;
}

bool OwnEngine::knows_constants() const {
  const std::vector<ps::TensorSpec>& tensors = engine_->layout().tensors();
  return constants_ || std::none_of(tensors.begin(), tensors.end(), [](const ps::TensorSpec& tensor) {
           return tensor.kind == ps::TensorKind::kConstant;
         });
}

absl::StatusOr<std::unique_ptr<engine::Engine>> OwnEngine::make(const config::JobConfig& job,
                                                                const std::string& name, int threads,
                                                                const std::string& run) const {
  if (job.program) {
    const auto role = use_ == Use::kTrain ? program::Role::kWorker : program::Role::kEvaluator;
    program::StartOptions options = program::start_options(job, role, name, threads);
    options.bfloat16 = config::takes_bfloat16(job);
    if (computed_ > 0) options.start.settings.emplace_back("computed", computed_);
    options.start.run = run;
    options.start.host_folder = std::filesystem::path(job_file_).parent_path().string();
    // On a host without the run's folder, the program has another job file.
    const store::RunPaths paths{std::filesystem::path(job_file_).parent_path()};
    if (paths.job() == job_file_ && store::find_run(paths.root).ok())
      options.start.run_folder = paths.root.string();
    return program::ProgramEngine::start(options);
  }
  const engine::BuiltIn* models = engine::built_in();
  if (models == nullptr) return engine::no_built_in_models();
  const auto use = use_ == Use::kTrain ? engine::BuiltIn::Use::kTrain : engine::BuiltIn::Use::kEvaluate;
  PACELINE_ASSIGN_OR_RETURN(auto engines, models->make(job, use, threads, 1));
  return std::move(engines.front());
}

}  // namespace paceline::compute
