// A program of the user's, as a child process at the other end of a socket. It dies with this process, and
// sees nothing of it but the socket. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/exit_reason.h"

namespace paceline::program {

// The environment variable that holds the number of the program's descriptor.
inline constexpr char kSocketVariable[] = "PACELINE_PROGRAM_FD";

class Process {
 public:
  struct Options {
    std::vector<std::string> command;           // looked for in PATH, unless it is a path
    std::string directory;                      // empty: this process's
    int output = -1;                            // the file its output goes to; -1: this process's output
    std::vector<std::string> environment = {};  // "NAME=value", over this process's
  };
  // Errors: NotFound when there is no such program; ResourceExhausted.
  static absl::StatusOr<Process> start(const Options& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  // Closes the socket, waits for a moment for its end, then kills it and its children.
  ~Process();

  // Sends a line that ends in '\n'. Errors: Unavailable when it does not read any more; those of
  // `keep_going`.
  absl::Status send(const std::string& line, const std::function<absl::Status()>& keep_going);
  // The next line, without its '\n'. While it waits it asks `keep_going` now and then, whose error it
  // returns. Errors: Unavailable when the program has ended; DataLoss for a line that is too long.
  absl::StatusOr<std::string> receive(const std::function<absl::Status()>& keep_going);

  // Waits until receive() need not, at most for `limit`.
  bool wait_readable(std::chrono::nanoseconds limit) const;

  // The program reads to the end of its socket. It may say something all the same.
  void say_no_more();
  // "exit status 1", "killed by signal 11 (Segmentation fault)"; waits for its end for a moment.
  std::string how_it_ended();
  // kKilled if it has ended because another process killed it: nothing that it printed says why then.
  ExitReason exit_reason() const;
  // Closes the socket and waits for its end, for as long as set_patience() said: the same words, or none
  // after exit status 0. Nothing: it still runs.
  std::optional<std::string> wait_for_end();
  // Waits for its end, at most for `limit`. What it said last can still be received.
  bool ended_within(std::chrono::milliseconds limit);
  // A signal has stopped it, and nobody has let it go on.
  bool stands_still() const;
  // How long it is waited for when this object goes.
  void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }
  pid_t pid() const { return pid_; }

 private:
  Process(pid_t pid, int pid_fd, int socket) : pid_(pid), pid_fd_(pid_fd), socket_(socket) {}
  // Waits for any of these of the socket, or for the end of the process; false at that.
  bool wait_for(short events, std::chrono::nanoseconds limit, bool& ready) const;

  pid_t pid_ = -1;
  int pid_fd_ = -1;
  int socket_ = -1;
  std::string received_;
  std::size_t searched_ = 0;  // bytes at its begin without an end of line
  std::optional<int> status_;
  std::chrono::milliseconds patience_{2000};
};

}  // namespace paceline::program
