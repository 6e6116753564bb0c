#include "paceline/processes/peer/exit_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <absl/status/statusor.h>
#include <absl/strings/numbers.h>
#include <fmt/format.h>

namespace paceline::peer {

namespace {

constexpr char kVariable[] = "PACELINE_EXIT_REPORT_FD";

int report_descriptor = -1;  // the descriptor of this process's starter

}  // namespace

void take_exit_descriptor() {
  const char* value = std::getenv(kVariable);
  int descriptor = -1;
  if (value == nullptr || !absl::SimpleAtoi(value, &descriptor) || descriptor <= STDERR_FILENO) return;
  unsetenv(kVariable);
  if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0) report_descriptor = descriptor;
}

void use_exit_descriptor(FileDescriptor descriptor) {
  const FileDescriptor before(std::exchange(report_descriptor, descriptor.release()));
}

void pass_exit_descriptor_on() {
  if (report_descriptor < 0 || fcntl(report_descriptor, F_SETFD, 0) != 0) return;
  setenv(kVariable, std::to_string(report_descriptor).c_str(), 1);
}

// Writes once, which a pipe takes whole or not at all. A longer message is cut.
void report_exit(const absl::Status& status) {
  if (report_descriptor < 0) return;
  std::string text = fmt::format("{}\n{}", name_of(exit_reason_of(status)), std::string(status.message()));
  text.resize(std::min<std::size_t>(text.size(), PIPE_BUF));
  // A starter that no longer reads has ended too.
  [[maybe_unused]] const ssize_t written = write(report_descriptor, text.data(), text.size());
}

void report_own_error_at_once(std::string_view message) {
  if (report_descriptor < 0) return;
  char text[512];
  const std::string_view name = name_of(ExitReason::kOwnError);
  std::size_t length = name.copy(text, sizeof(text));
  text[length++] = '\n';
  length += message.copy(text + length, sizeof(text) - length);
  [[maybe_unused]] const ssize_t written = write(report_descriptor, text, length);
}

absl::StatusOr<ExitPipe> ExitPipe::open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  ExitPipe made;
  made.read_ = FileDescriptor(ends[0]);
  made.write_ = FileDescriptor(ends[1]);
  return made;
}

std::string ExitPipe::environment(int child_end) { return fmt::format("{}={}", kVariable, child_end); }

ExitReport ExitPipe::read() const {
  std::string text(PIPE_BUF, '\0');
  const ssize_t count = ::read(read_.get(), text.data(), text.size());
  if (count <= 0) return {};
  text.resize(static_cast<std::size_t>(count));
  const std::size_t line = text.find('\n');
  if (line == std::string::npos) return {};
  const auto reason = exit_reason_named(std::string_view(text).substr(0, line));
  return reason ? ExitReport{*reason, text.substr(line + 1)} : ExitReport{};
}

}  // namespace paceline::peer
