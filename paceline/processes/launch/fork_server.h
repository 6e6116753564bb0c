// Starts processes of a program that is slow to load, such as `paceline-torch`: one process loads it, the
// fork server, and each further one is a fork of that. A fork starts at once, and shares every page of memory
// that neither process writes to.
//
// A fork is a child of the process that asked for it, as if that process had run the program. So the server
// may die at any moment: its forks live on, and later processes start in the usual way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/processes/launch/child_process.h"

namespace paceline::launch {

// The command of a program that can be a fork server. Only a ForkServer gives it.
inline constexpr char kForkServerCommand[] = "fork-server";

// ---- In the process that starts the others. One thread. ----

class ForkServer {
 public:
  // Does not wait until the program is loaded. `arguments`: those that make it a fork server; it gets two
  // more words, for serve_forks(). `inherited`: descriptors that it and its forks get unchanged. Errors:
  // those of ChildProcess::start().
  static absl::StatusOr<ForkServer> start(ChildProgram program, const std::vector<std::string>& arguments,
                                          const std::vector<int>& inherited = {});

  // Like ChildProcess::start(). Waits until the program is loaded, or this process is stopped. Errors:
  // Unavailable if the server is gone or cannot fork: then run the program. With any other error, running it
  // would fail too.
  absl::StatusOr<ChildProcess> start_child(const std::string& name, const std::vector<std::string>& arguments,
                                           const std::string& log_file);

 private:
  ForkServer(ChildProcess server, FileDescriptor socket)
      : server_(std::move(server)), socket_(std::move(socket)) {}
  absl::StatusOr<pid_t> fork(const std::vector<std::string>& arguments, int log, int exit_report) const;

  ChildProcess server_;
  FileDescriptor socket_;
};

// ---- In the fork server. It must have one thread. ----

// Forks on request. In each fork it returns the command line, which tools such as ps then show too. In the
// server itself it returns nullopt, when no more requests can come or when it cannot serve. `argv`: the
// argument of main().
std::optional<std::vector<std::string>> serve_forks(int argc, char** argv);

}  // namespace paceline::launch
