#include "paceline/processes/compute/own_files.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"

namespace paceline::compute {

namespace {

constexpr std::int64_t kLongestJob = 16 << 20;  // bytes

// A source without a place after a colon is made by Paceline itself, from no file.
bool names_files(const config::DataConfig& data) { return data.source.find(':') != std::string::npos; }

absl::Status no_job_file(const std::string& what) {
  return absl::FailedPreconditionError(
      fmt::format("the job {}: say --job FILE, the job file of this host", what));
}

}  // namespace

absl::StatusOr<config::JobConfig> with_own_files(config::JobConfig job, const std::string& job_file) {
  if (job_file.empty()) {
    if (job.program)
      return no_job_file("trains a program, and this process was not told which one it may start");
    if (names_files(job.data))
      return no_job_file("reads a data set from files, and this process was not told which ones it may read");
    if (!job.initial_weights.empty())
      return no_job_file(
          "begins with weights of a file, and this process was not told which one it may read");
    return job;
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string text, store::read_file(job_file, kLongestJob));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig own, config::parse_job(text, job_file));
  if (job.program && !own.program)
    return absl::FailedPreconditionError(
        fmt::format("{}: the job trains a program, and this file has no [program]", job_file));
  if (!job.program && own.program)
    return absl::FailedPreconditionError(
        fmt::format("{}: the job trains a built-in model, and this file has a [program]", job_file));
  if (job.program)
    job.program = own.program;
  else
    job.data.source = own.data.source;
  // A job that goes on from a checkpoint names no file, and the one that was asked for may name one.
  if (job.initial_weights.empty()) return job;
  if (own.initial_weights.empty())
    return absl::FailedPreconditionError(fmt::format(
        "{}: the job begins with weights of a file, and this file has no model.weights", job_file));
  job.initial_weights = own.initial_weights;
  return job;
}

}  // namespace paceline::compute
