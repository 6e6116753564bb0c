// The results of a sweep so far: OUT/results.jsonl has a line for each finished training, under a name that
// comes from its job. A line also says which build of the program trained, and what data and initial weights the training
// read; older lines do not. One process at a time holds the file.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/records/pages/sweep_result.h"
#include "paceline/records/store/line_file.h"

namespace paceline::cli {

struct KeptResult {
  report::SweepResult result;
  std::string build;   // build_id() of the program that trained; empty: not known
  std::string inputs;  // the identity of its data and initial weights; empty: not known
};

class SweepResults {
 public:
  // Makes the folder. Errors: another sweep uses it; a line that is no result.
  static absl::StatusOr<SweepResults> open(const std::filesystem::path& out);

  // The newest result of the job with that name and these inputs; null if it is not finished. A result whose inputs are
  // not known counts. Valid until the next call of add().
  const KeptResult* find(const std::string& job, const std::string& inputs) const;
  // Whether the job has results, if with other inputs.
  bool has_any(const std::string& job) const { return results_.contains(job); }
  // A result of this build. `axes`: the values of its axes, for people.
  absl::Status add(const std::string& job, const report::Json& axes, const std::string& inputs,
                   const report::SweepResult& result);

 private:
  using Results = std::map<std::string, std::vector<KeptResult>>;  // keyed by job, in the order of the lines
  SweepResults(FileDescriptor lock, Results results, store::LineFile file)
      : lock_(std::move(lock)), results_(std::move(results)), file_(std::move(file)) {}

  FileDescriptor lock_;  // the folder is free again when this is closed
  Results results_;
  store::LineFile file_;
};

// The training as one object: {"axes": …, "job": …, its result, "build": …, "inputs": …}.
report::Json sweep_line(const std::string& job, const report::Json& axes, const KeptResult& kept);

}  // namespace paceline::cli
