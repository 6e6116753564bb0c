// The results of a sweep so far: OUT/results.jsonl has a line for each finished training, under a name that
// comes from its job. One process at a time holds the file.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/records/pages/sweep_result.h"
#include "paceline/records/store/line_file.h"

namespace paceline::cli {

class SweepResults {
 public:
  // Makes the folder. Errors: another sweep uses it; a line that is no result.
  static absl::StatusOr<SweepResults> open(const std::filesystem::path& out);

  // The result of the job with that name; null if it is not finished.
  const report::SweepResult* find(const std::string& job) const;
  // `axes`: the values of its axes, for people.
  absl::Status add(const std::string& job, const report::Json& axes, const report::SweepResult& result);

 private:
  SweepResults(FileDescriptor lock, std::map<std::string, report::SweepResult> results, store::LineFile file)
      : lock_(std::move(lock)), results_(std::move(results)), file_(std::move(file)) {}

  FileDescriptor lock_;  // the folder is free again when this is closed
  std::map<std::string, report::SweepResult> results_;
  store::LineFile file_;
};

// The training as one object: {"axes": …, "job": …, its result}.
report::Json sweep_line(const std::string& job, const report::Json& axes, const report::SweepResult& result);

}  // namespace paceline::cli
