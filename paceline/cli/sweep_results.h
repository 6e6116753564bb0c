// What a sweep has found so far: OUT/results.jsonl, a line for each training that is finished, under a name
// that its job gives it. Held by one process at a time.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/report/sweep_result.h"
#include "paceline/store/line_file.h"

namespace paceline::cli {

class SweepResults {
 public:
  // Makes the folder. Errors: another sweep uses it; a line that is no result.
  static absl::StatusOr<SweepResults> open(const std::filesystem::path& out);

  // Of the job of that name; null when it is not finished.
  const report::SweepResult* find(const std::string& job) const;
  // `axes`: which values it was trained for, for people.
  absl::Status add(const std::string& job, const report::Json& axes, const report::SweepResult& result);

 private:
  SweepResults(FileDescriptor lock, std::map<std::string, report::SweepResult> results, store::LineFile file)
      : lock_(std::move(lock)), results_(std::move(results)), file_(std::move(file)) {}

  FileDescriptor lock_;  // closed: the folder is free again
  std::map<std::string, report::SweepResult> results_;
  store::LineFile file_;
};

// The training as one object: {"axes": …, "job": …, its result}.
report::Json sweep_line(const std::string& job, const report::Json& axes, const report::SweepResult& result);

}  // namespace paceline::cli
