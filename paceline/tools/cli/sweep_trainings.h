// The trainings of a sweep that are missing, several at a time. Each is deterministic by itself, so it does
// not matter what else runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/sweep.h"
#include "paceline/tools/cli/sweep_results.h"

namespace paceline::cli {

struct Training {
  config::SweepCell cell;
  std::string label;  // "static-mix, BSP, 1"
  report::Json axes;  // {"scenario": "static-mix", …}
  config::JobConfig job;
  std::string text;         // the job's resolved text
  std::string name;         // hash of `text`: equal texts have equal names, wherever the results go
  std::string data_note{};  // a note about the data for people
  std::string inputs{};     // the identity of its data and initial weights (sweep_inputs.h)
  std::string layers{};     // the setting with its measured model; empty: it needs none (measured_models.h)
};

struct SweepPlace {
  std::string file;  // the sweep's, for errors
  std::filesystem::path out;
  std::int64_t jobs = 1;  // trainings at a time; ≥ 1
  bool quiet = false;     // no progress
};

// The status, with the file and the training in front of it.
absl::Status about_training(const Training& training, const std::string& file, const absl::Status& status);

// Trains them, and shows progress. False when the user stopped it; the trainings under way are then removed.
// Errors: the first of a training's; those under way end first.
absl::StatusOr<bool> train_all(const std::vector<const Training*>& trainings, const SweepPlace& place,
                               SweepResults& results);

}  // namespace paceline::cli
