#include "paceline/tools/cli/models_command.h"

#include <fcntl.h>

#include <cerrno>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/engine/built_in.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/records/store/files.h"

namespace paceline::cli {

namespace {

// Lines before what may hold any byte.
std::string sizes_answer(const JobSizes& sizes) {
  return fmt::format("{}\n{}\n{}", sizes.samples, sizes.note,
                     wire::to_wire(sizes.layout).SerializeAsString());
}

std::string host_answer(const config::JobConfig& job) {
  const auto data = engine::built_in()->describe_data(job);
  return fmt::format("{}\n{}\n{}", engine::built_in()->describe_libtorch(), data.ok() ? "ok" : "failed",
                     data.ok() ? *data : std::string(data.status().message()));
}

absl::Status put_answer(const std::string& file, const std::string& answer) {
  const FileDescriptor out(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!out.valid()) return store::io_error(file, "written", errno);
  return store::write_all(out, file, answer.data(), answer.size());
}

// The first `count` lines, and what follows them.
std::vector<std::string> lines_and_rest(const std::string& answer, int count) {
  return absl::StrSplit(answer, absl::MaxSplits('\n', count));
}

}  // namespace

absl::Status models_command(const ModelsOptions& options) {
  PACELINE_RETURN_IF_ERROR(need_built_in_models());
  PACELINE_ASSIGN_OR_RETURN(const std::string text, runs::read_job_file(options.job_file));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(text, "job.toml"));
  if (options.question == to_string(TorchQuestion::kHost))
    return put_answer(options.answer_file, host_answer(job));
  PACELINE_ASSIGN_OR_RETURN(const JobSizes sizes, read_data_and_model(job));
  return put_answer(options.answer_file, sizes_answer(sizes));
}

absl::StatusOr<JobSizes> sizes_in(const std::string& answer) {
  const std::vector<std::string> parts = lines_and_rest(answer, 2);
  JobSizes sizes;
  wire::Layout layout;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &sizes.samples) || !layout.ParseFromString(parts[2]))
    return absl::DataLossError("paceline-torch gave no answer; it and paceline may be of two versions");
  sizes.note = parts[1];
  PACELINE_ASSIGN_OR_RETURN(sizes.layout, wire::from_wire(layout));
  return sizes;
}

HostAnswer host_answer_in(const std::string& answer) {
  std::vector<std::string> parts = lines_and_rest(answer, 2);
  parts.resize(3);
  HostAnswer host{parts[0], parts[2]};
  if (parts[1] != "ok") host.data = absl::UnavailableError(parts[2]);
  return host;
}

}  // namespace paceline::cli
