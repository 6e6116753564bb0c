// The file in which the first task of a host says where the job is, and in which the host's other tasks read it. A file that a killed task has left is told from a living one by its lock.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::launch {

// The first task's side. The file is there for as long as this is.
class TaskLead {
 public:
  // `words`: the command, in one line; it has to be the same in all tasks. Errors: another process leads tasks of this
  // name here; the file system's.
  static absl::StatusOr<TaskLead> begin(const std::filesystem::path& path, const std::string& words,
                                        std::chrono::milliseconds patience = std::chrono::seconds(10));
  TaskLead(TaskLead&&) noexcept = default;
  TaskLead& operator=(TaskLead&&) = delete;
  ~TaskLead();

  // The host's processes begin, by the job in this file; the coordinator's address is beside it.
  absl::Status say(const std::string& job_file);
  // The last word for tasks that still work: this one ends, after the job (`well`) or with an error of its own. Nothing is
  // said if no job began.
  absl::Status leave(bool well);

 private:
  TaskLead(std::filesystem::path path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  FileDescriptor file_;  // locked
  bool began_ = false;
};

// The side of any other task.
class TaskFollower {
 public:
  TaskFollower(std::filesystem::path path, std::string words)
      : path_(std::move(path)), words_(std::move(words)) {}

  // The path of the job, or nothing as long as it is not known. Errors: InvalidArgument if the first task was started with
  // other words; Unavailable if it ended before its run began.
  absl::StatusOr<std::optional<std::string>> look();
  // Whether the first task is there now.
  bool leads() const;
  // The last word of a first task that has ended after its run began: whether it ended well. A killed one leaves none.
  std::optional<bool> ended_well() const;

 private:
  std::filesystem::path path_;
  std::string words_;
  FileDescriptor file_;  // seen locked
};

// The fate of the first task, for a follower that looks again and again.
class FirstTaskWatch {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;
  // kFailed: the first task ended with an error of its own. kLost: it has been away for a while, and left no word. kWell:
  // neither.
  enum class Fate { kWell, kFailed, kLost };

  explicit FirstTaskWatch(SteadyTime now) : seen_(now) {}

  Fate look(const TaskFollower& follower, SteadyTime now);

 private:
  SteadyTime seen_;
};

}  // namespace paceline::launch
