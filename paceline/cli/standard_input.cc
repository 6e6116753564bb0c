#include "paceline/cli/standard_input.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/store/files.h"

namespace paceline::cli {

namespace {

absl::Status input_failed(const std::string& what, int error) {
  return absl::UnavailableError(
      fmt::format("{}: {}: {}", kStandardInput, what, std::generic_category().message(error)));
}

// In the place of what was read there is memory with the same bytes.
absl::Status keep_input(const std::string& text) {
  const FileDescriptor memory(memfd_create("job", MFD_CLOEXEC));
  if (memory.get() < 0 ||
      ::pwrite(memory.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::dup2(memory.get(), STDIN_FILENO) < 0)
    return input_failed("cannot be kept", errno);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> read_standard_input(std::int64_t most_bytes) {
  // What is to be closed by exec() did not come through it: a library opened it where standard input was
  // closed.
  const int flags = ::fcntl(STDIN_FILENO, F_GETFD);
  if (flags < 0 || (flags & FD_CLOEXEC) != 0)
    return absl::InvalidArgumentError(fmt::format("{}: is closed; write the file to it", kStandardInput));
  std::string text;
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return input_failed("cannot be read", errno);
    if (got == 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > static_cast<std::size_t>(most_bytes))
      return absl::InvalidArgumentError(
          fmt::format("{}: has more than {} bytes", kStandardInput, most_bytes));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    return absl::InvalidArgumentError(fmt::format("{}: is empty; write the file to it", kStandardInput));
  if (const absl::Status kept = keep_input(text); !kept.ok()) return kept;
  return text;
}

absl::StatusOr<std::string> read_named_file(const std::string& file, std::int64_t most_bytes) {
  return file == "-" ? read_standard_input(most_bytes) : store::read_file(file, most_bytes);
}

std::string shown_name(const std::string& file) { return file == "-" ? kStandardInput : file; }

}  // namespace paceline::cli
