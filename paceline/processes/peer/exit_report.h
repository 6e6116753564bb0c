// A process of a job tells its starter why it ended, over a descriptor that it inherits.
#pragma once

#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/file_descriptor.h"

namespace paceline::peer {

struct ExitReport {
  ExitReason reason = ExitReason::kUnsaid;
  std::string message{};  // the error's message; one line
};

// Called in the started process. Takes the descriptor, if there is one, so that processes started from here
// do not have it.
void take_exit_descriptor();
// Called in a forked process, which got its descriptor directly. A descriptor that was taken earlier belongs
// to the process that it was forked from.
void use_exit_descriptor(FileDescriptor descriptor);
// Tells the starter of this process, if it wants to hear it.
void report_exit(const absl::Status& status);
// Reports an error without allocating memory, which may have run out.
void report_own_error_at_once(std::string_view message);
// Leaves the descriptor to another program that this process becomes, which will report.
void pass_exit_descriptor_on();

// The starter's side.
class ExitPipe {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<ExitPipe> open();

  // The environment variable that tells the child its descriptor.
  static std::string environment(int child_end);

  // The end that the child gets.
  int child_end() const { return write_.get(); }
  // Called when the child has its own copy.
  void close_child_end() { write_ = FileDescriptor(); }
  // The child's report. Call it after the child has ended.
  ExitReport read() const;

 private:
  FileDescriptor read_, write_;
};

}  // namespace paceline::peer
