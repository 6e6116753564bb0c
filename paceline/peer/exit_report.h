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
  std::string message{};  // of the error; one line
};

// In the started process. Takes the descriptor, if there is one, so that processes started from here do not
// have it.
void take_exit_descriptor();
// The same of a process that was forked, and got it so. One that it took before is its starter's.
void use_exit_descriptor(FileDescriptor descriptor);
// Tells the starter of this process, if it wants to hear it.
void report_exit(const absl::Status& status);
// The same, of an error, where there is no memory.
void report_own_error_at_once(std::string_view message);
// This process becomes another program, which tells.
void pass_exit_descriptor_on();

// In the process that starts it.
class ExitPipe {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<ExitPipe> open();

  // Of the child, to which this descriptor comes.
  static std::string environment(int child_end);

  // The end that the child gets.
  int child_end() const { return write_.get(); }
  // The child has its own.
  void close_child_end() { write_ = FileDescriptor(); }
  // What it said, once it has ended.
  ExitReport read() const;

 private:
  FileDescriptor read_, write_;
};

}  // namespace paceline::peer
