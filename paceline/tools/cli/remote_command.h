// A command on another host, over ssh, for `paceline up`. It gets no terminal, and Ctrl-C here does not reach
// it; close_input() closes its standard input. The destructor kills it. One thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::cli {

class RemoteCommand {
 public:
  // `command`: a line for the host's shell. Its input is the file, or, if the name is empty, an open stream
  // until close_input(). Errors: there is no ssh here.
  static absl::StatusOr<RemoteCommand> start(const std::string& host, const std::string& command,
                                             const std::string& input_file = "");
  RemoteCommand(RemoteCommand&& other) noexcept;
  RemoteCommand& operator=(RemoteCommand&&) = delete;
  ~RemoteCommand();

  // Reads its output so far. Returns the exit status, once it has ended: 255 comes from ssh itself.
  std::optional<int> look();
  void close_input() { input_ = FileDescriptor(); }

  const std::string& host() const { return host_; }
  // The output so far. A reader may take parts away.
  std::string output, errors;

 private:
  RemoteCommand(std::string host, pid_t pid, FileDescriptor input, FileDescriptor output,
                FileDescriptor errors);

  std::string host_;
  pid_t pid_ = -1;
  FileDescriptor input_, output_, errors_;
  std::optional<int> status_;
};

}  // namespace paceline::cli
