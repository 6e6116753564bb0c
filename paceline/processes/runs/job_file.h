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

inline constexpr std::int64_t kMostJobBytes = 1 << 20;

// Errors: those of store::read_file; a file of more than 1 MiB is no job.
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
