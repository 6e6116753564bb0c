// A command on another host, over ssh, as `paceline up` runs them. It gets no terminal, and Ctrl-C here does
// not reach it: closing its input does what the command makes of that. Killed when the object goes. One
// thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::cli {

class RemoteCommand {
 public:
  // `command`: a line for the host's shell. Its input: the file, or with an empty name nothing until
  // close_input(). Errors: there is no ssh here.
  static absl::StatusOr<RemoteCommand> start(const std::string& host, const std::string& command,
                                             const std::string& input_file = "");
  RemoteCommand(RemoteCommand&& other) noexcept;
  RemoteCommand& operator=(RemoteCommand&&) = delete;
  ~RemoteCommand();

  // Reads what it has written by now. The exit status, once it has ended: ssh's own is 255.
  std::optional<int> look();
  void close_input() { input_ = FileDescriptor(); }

  const std::string& host() const { return host_; }
  // What it wrote so far. A reader may take parts away.
  std::string output, errors;

 private:
  RemoteCommand(std::string host, pid_t pid, FileDescriptor input, FileDescriptor output,
                FileDescriptor errors);

  std::string host_;
  pid_t pid_ = -1;
  FileDescriptor input_, output_, errors_;
  std::optional<int> status_;
};

// A word as a shell takes it for one, whatever is in it.
std::string shell_word(const std::string& word);

}  // namespace paceline::cli
