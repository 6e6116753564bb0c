// `paceline export`: the weights of a run as one file that PyTorch takes, and what happened in it as files
// that other tools read.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

struct ExportOptions {
  std::string run;         // its folder; it may still train
  std::string file;        // .safetensors; empty: no weights, and so below
  bool trainable = false;  // the file gets only what was trained
  std::string trace;
  std::string tables;       // a folder
  std::string tensorboard;  // a folder
  std::string prometheus;
  bool follow = false;  // the event file, until the run has ended
};

// Weights: writes the newest whole checkpoint, with the names, shapes and types that the program's state_dict
// has. Errors: no checkpoint yet; what is wrong with it; the file cannot be written, or is no regular file;
// nothing is asked for. The others: export_run.h.
absl::Status export_command(const ExportOptions& options);

}  // namespace paceline::cli
