// The certificates of a job whose hosts a launcher has started together. The first host makes them in a folder that all
// hosts see, and tells the others where they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

#include <absl/status/statusor.h>

#include "paceline/processes/launch/tasks.h"

namespace paceline::cli {

// One for each host of a start, which lives as long as the host's part of the job. A start that was killed may have
// had the same name. So each host leaves a question that nobody has asked before, and the first host answers it.
class SharedCertificates {
 public:
  // `runs_dir`: absolute, and the same folder for all hosts. `tasks.name`: the same for all of them, too.
  SharedCertificates(std::filesystem::path runs_dir, const launch::Tasks& tasks, bool first);
  SharedCertificates(const SharedCertificates&) = delete;
  SharedCertificates& operator=(const SharedCertificates&) = delete;
  // The first host removes the certificates, unless an unfinished run in `runs_dir` still needs them to go on.
  ~SharedCertificates();

  // The job's folder of certificates, which the first host makes and the others wait for. Errors: those of
  // make_certificates() and wait_for().
  absl::StatusOr<std::string> folder_of_job(const std::string& job);

 private:
  absl::StatusOr<std::string> make(const std::string& job);
  absl::StatusOr<std::string> ask();
  void answer_questions(const std::string& folder_of_job) const;
  // True if a run in `runs_dir` has recorded these certificates and is not over.
  bool needed() const;

  const std::filesystem::path runs_dir_;
  const launch::Tasks& tasks_;
  const bool first_;
  const std::filesystem::path meeting_;   // for questions and answers
  std::filesystem::path certificates_{};  // the first host's
  std::string question_{};                // another host's
  std::jthread answers_{};
};

}  // namespace paceline::cli
