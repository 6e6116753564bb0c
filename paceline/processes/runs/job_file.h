// Reading a job file: the same for every command that starts, runs or reports a job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/old_keys.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

// A job may name each tensor of a large model in a group of the optimizer.
inline constexpr std::int64_t kMostJobBytes = 8 << 20;

// Whether a job with this text, once it is in its run's folder, is read again. Errors: InvalidArgument.
inline absl::Status check_length(const std::string& job_toml) {
  const auto bytes = static_cast<std::int64_t>(job_toml.size());
  if (bytes <= kMostJobBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "the job with its program's settings has {:.1f} MB, and no more than {} MB are read; name fewer "
      "tensors in the optimizer's groups",
      static_cast<double>(bytes) / (1 << 20), kMostJobBytes >> 20));
}

// Errors: those of store::read_file; a file of more than 8 MiB is no job.
inline absl::StatusOr<std::string> read_job_file(const std::filesystem::path& path) {
  return store::read_file(path, kMostJobBytes);
}

// The job of a run folder, of any version of Paceline: keys with an old name get today's.
inline absl::StatusOr<std::string> read_recorded_job(const store::RunPaths& paths) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_job_file(paths.job()));
  return config::with_current_keys(text);
}

// The error with the file (or file and place) in front.
inline absl::Status about_file(const std::string& file, const absl::Status& status) {
  return {status.code(), fmt::format("{}: {}", file, std::string(status.message()))};
}

}  // namespace paceline::runs
