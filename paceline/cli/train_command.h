// `paceline train`: one job, on processes of this machine or in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"
#include "paceline/launch/display.h"
#include "paceline/ps/layout.h"

namespace paceline::program {
struct Model;
}  // namespace paceline::program
namespace paceline::launch {
class ForkServer;
struct HostProcesses;
}  // namespace paceline::launch

namespace paceline::cli {

struct TrainOptions {
  std::string job_file;           // empty: the default job; "-": standard input
  std::string text{};             // of the job, where it has no file
  std::vector<std::string> sets;  // key=value
  std::string resume{};           // a run folder; then job_file is empty
  std::int64_t from = -1;         // the version of its checkpoint to go on from; −1: the newest
  std::string said{};             // what the program has said of itself before (program/said_before.h)
  // What checked_job() leaves: what the job's program says of itself; what people should know of the data; a
  // fork server with the job's data.
  std::string program{};
  std::string data_note{};
  std::shared_ptr<launch::ForkServer> fork_server{};
  bool ui = false;       // pages of the run, while it trains
  bool take_up = false;  // a run of this very job that was cut short, if there is one
  bool again = false;    // that is what `resume` is
  launch::Shown shown = launch::Shown::kLine;
  bool names_folder = true;                // says where the run's folder is when it begins
  bool in_virtual_time = false;            // modelled time, in this process
  std::string command = "paceline train";  // for people: what goes on with such a run
  // What of the job runs here, given the run folder, the job and whether it is resumed; all of it without.
  std::function<launch::HostProcesses(const std::string&, const config::JobConfig&, bool)> processes{};
};

struct TrainedRun {
  std::string folder;
  bool interrupted = false;               // by Ctrl-C or SIGTERM, after a checkpoint
  std::optional<std::string> by_other{};  // the same, but it was the command of another host: in words
  absl::Status after{};                   // what a program did badly after the job was over
};

struct JobSizes {
  ps::Layout layout;
  std::int64_t samples = 0;  // of the training set
  std::string note{};        // one line that people should know of the data
};

// Reads the data and builds the model of a job that trains a built-in one, so that what is wrong shows before
// anything is written. This program may become another one (cli/torch_program.h) by that.
absl::StatusOr<JobSizes> read_data_and_model(const config::JobConfig& job);
// Whether what the job says fits them, and its initial weights and this host's memory do.
absl::Status check_fits(const config::JobConfig& job, const JobSizes& sizes, bool in_virtual_time = false);
// A run may be resumed from anywhere: relative paths of a data source become absolute ones.
absl::StatusOr<std::string> absolute_source(const std::string& source);

struct JobText {
  std::string text;
  std::string file;  // the name that errors give
};

// What the options' job says, without their sets.
absl::StatusOr<JobText> job_text(const TrainOptions& options);

// The job of the options, whose paths are absolute.
absl::StatusOr<std::string> resolved_job(const TrainOptions& options);
// An error of the job's that begins with one of its keys then says where that value came from.
absl::Status with_origin(const absl::Status& error, const TrainOptions& options);
// The resolved text of a job with what its program asks laid under it, checked as below.
absl::StatusOr<std::string> with_program(const config::JobConfig& job, const std::string& resolved,
                                         const program::Model& model, const TrainOptions& options);
// The resolved job, checked: its data can be read and its model fits them; or its program starts, and the job
// is what that asks for.
absl::StatusOr<std::string> checked_job(TrainOptions& options);

// Whether virtual time has all that the job says. Errors: InvalidArgument.
absl::Status check_in_virtual_time(const config::JobConfig& job);
// Whether the plan that a job asks for can be made, where it asks for one.
absl::Status check_plan(const std::string& job_text, bool in_virtual_time);

// Trains the job in a new run folder, or goes on in `resume`; a plan that is to be made is made before. Shows
// the plan and progress.
absl::StatusOr<TrainedRun> train(const std::string& job_text, const TrainOptions& options);

// What `resume` asks for: checks that it can go on, and trains on. `options.program` is set by that.
absl::StatusOr<TrainedRun> go_on(TrainOptions options);

// Writes the report and says what was trained, and how to go on where it was stopped; the exit status.
absl::StatusOr<int> show_trained(const TrainedRun& run, const TrainOptions& options);

// The whole command; the exit status.
absl::StatusOr<int> train_command(TrainOptions options);

}  // namespace paceline::cli
