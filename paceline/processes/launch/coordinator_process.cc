#include "paceline/processes/launch/coordinator_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/stop_signals.h"

namespace paceline::launch {

namespace {

constexpr int kStartLook_ms = 100;

// The line that the coordinator writes once it listens. Empty: it ended before that. Nothing: this program
// was stopped while it waited, which may be long because of a large checkpoint.
std::optional<std::string> read_line(int fd) {
  std::string line;
  char byte = 0;
  pollfd more{.fd = fd, .events = POLLIN, .revents = 0};
  while (true) {
    if (stop_signals() > 0) return std::nullopt;
    if (poll(&more, 1, kStartLook_ms) <= 0) continue;
    const ssize_t count = read(fd, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || byte == '\n') return line;
    line.push_back(byte);
  }
}

absl::StatusOr<ChildProcess::End> wait_for_end(ChildProcess& child) {
  for (int i = 0; i < 500; ++i) {
    if (const auto ended = child.ended()) return *ended;
    usleep(10'000);
  }
  return absl::DeadlineExceededError(
      fmt::format("{} neither listens nor ends; its log is {}", child.name(), child.log_file()));
}

absl::StatusOr<std::string> address_of(ChildProcess& child, int fd) {
  std::optional<std::string> line = read_line(fd);
  if (!line) {
    child.signal(SIGKILL);
    child.wait();
    return absl::CancelledError("stopped while the coordinator started");
  }
  if (!line->empty()) return *std::move(line);
  PACELINE_ASSIGN_OR_RETURN(const ChildProcess::End end, wait_for_end(child));
  return reason_of(child, end);
}

}  // namespace

absl::StatusOr<CoordinatorProcess> start_coordinator_process(const std::string& run,
                                                             const std::vector<std::string>& words,
                                                             const ListeningSocket& listening) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  std::vector<std::string> all = {"coordinator",  run,
                                  "--address-fd", std::to_string(ends[1]),
                                  "--listen",     listening.address,
                                  "--listen-fd",  std::to_string(listening.socket.get())};
  all.insert(all.end(), words.begin(), words.end());
  PACELINE_ASSIGN_OR_RETURN(
      ChildProcess child,
      ChildProcess::start(ChildProgram::kWithoutTorch, "coordinator", all, run + "/logs/coordinator.log",
                          {ends[1], listening.socket.get()}));
  write_end = FileDescriptor();  // the child has the last one
  auto address = address_of(child, read_end.get());
  return CoordinatorProcess{std::move(child), std::move(address)};
}

}  // namespace paceline::launch
