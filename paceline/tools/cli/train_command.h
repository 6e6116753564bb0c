// `paceline train`: one job, on processes of this machine or in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/processes/launch/display.h"

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
  std::string text{};             // the job's text, if it has no file
  std::vector<std::string> sets;  // key=value
  std::string resume{};           // a run folder; then job_file is empty
  std::int64_t from = -1;         // the version of its checkpoint to go on from; −1: the newest
  std::string said{};             // an earlier answer of the program about itself (program/said_before.h)
  // checked_job() fills these in: the program's answer about itself; a note about the data for people; a fork
  // server with the job's data.
  std::string program{};
  std::string data_note{};
  std::shared_ptr<launch::ForkServer> fork_server{};
  bool ui = false;       // pages of the run, while it trains
  bool take_up = false;  // go on with a run of this very job that was cut short, if there is one
  bool again = false;    // `resume` came from `take_up`
  launch::Shown shown = launch::Shown::kLine;
  bool names_folder = true;                // prints the run's folder when the run begins
  bool in_virtual_time = false;            // modelled time, in this process
  bool has_variants = false;               // each has the settings of cards (cli/card_settings.h) of its own
  std::string command = "paceline train";  // for people: the command that goes on with such a run
  // The part of the job that runs on this host, given the run folder, the job and whether it is resumed;
  // empty: all of it.
  std::function<launch::HostProcesses(const std::string&, const config::JobConfig&, bool)> processes{};
};

struct TrainedRun {
  std::string folder;
  bool interrupted = false;               // stopped by Ctrl-C or SIGTERM, after a checkpoint
  std::optional<std::string> by_other{};  // stopped by the command of another host: in words
  absl::Status after{};                   // a program's failure after the job was over
};

struct JobSizes {
  ps::Layout layout;
  std::int64_t samples = 0;  // number in the training set
  std::string note{};        // a line about the data for people
};

// Reads the data and builds the model of a job that trains a built-in one, so that errors show before
// anything is written. This program may become the other one for that (cli/torch_program.h).
absl::StatusOr<JobSizes> read_data_and_model(const config::JobConfig& job);
// Whether the job's settings fit the sizes, and its initial weights and this host's memory do.
absl::Status check_fits(const config::JobConfig& job, const JobSizes& sizes, bool in_virtual_time = false);
// A run may be resumed from anywhere: relative paths of a data source become absolute ones.
absl::StatusOr<std::string> absolute_source(const std::string& source);

struct JobText {
  std::string text;
  std::string file;  // the name that errors give
};

// The text of the options' job, without their sets.
absl::StatusOr<JobText> job_text(const TrainOptions& options);

// The resolved text of the options' job, with absolute paths.
absl::StatusOr<std::string> resolved_job(const TrainOptions& options);
// Makes an error that begins with one of the job's keys say where that value came from.
absl::Status with_origin(const absl::Status& error, const TrainOptions& options);
// The resolved text of a job, with its program's settings as defaults, checked like below.
absl::StatusOr<std::string> with_program(const config::JobConfig& job, const std::string& resolved,
                                         const program::Model& model, const TrainOptions& options);
// The resolved text of the job, checked: its data can be read and its model fits them; or its program starts,
// and the job agrees with the program's settings.
absl::StatusOr<std::string> checked_job(TrainOptions& options);

// Whether virtual time can do all of the job. Errors: InvalidArgument.
absl::Status check_in_virtual_time(const config::JobConfig& job);
// Whether the plan of a job can be made, if it wants one.
absl::Status check_plan(const std::string& job_text, bool in_virtual_time);

// Trains the job in a new run folder, or goes on in `resume`. If a plan is to be made, that is done first.
// Shows the plan and progress.
absl::StatusOr<TrainedRun> train(const std::string& job_text, const TrainOptions& options);

// Checks that the run in `resume` can go on, and trains on. Sets `options.program` on the way.
absl::StatusOr<TrainedRun> go_on(TrainOptions options);

// Writes the report and says what was trained, and, if the run was stopped, how to go on. Returns the exit
// status.
absl::StatusOr<int> show_trained(const TrainedRun& run, const TrainOptions& options);

// The whole command. Returns the exit status.
absl::StatusOr<int> train_command(TrainOptions options);

}  // namespace paceline::cli
