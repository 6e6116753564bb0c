#include "paceline/tools/cli/standard_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/memory_file.h"
#include "paceline/records/store/files.h"

namespace paceline::cli {

namespace {

// A descriptor of this process, and how messages name it.
struct Input {
  int descriptor;
  std::string name;
};

absl::Status input_failed(const Input& input, const std::string& what, int error) {
  return absl::UnavailableError(
      fmt::format("{}: {}: {}", input.name, what, std::generic_category().message(error)));
}

// Replaces the input that was read by memory with the same bytes.
absl::Status keep_input(const Input& input, const std::string& text) {
  const FileDescriptor memory = new_memory_file("job");
  if (memory.get() < 0 ||
      ::pwrite(memory.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::dup2(memory.get(), input.descriptor) < 0)
    return input_failed(input, "cannot be kept", errno);
  return absl::OkStatus();
}

absl::StatusOr<std::string> read_all_of(const Input& input, std::int64_t most_bytes) {
  std::string text;
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t got = ::read(input.descriptor, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return input_failed(input, "cannot be read", errno);
    if (got == 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > static_cast<std::size_t>(most_bytes))
      return absl::InvalidArgumentError(fmt::format("{}: has more than {} bytes", input.name, most_bytes));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    return absl::InvalidArgumentError(fmt::format("{}: is empty; write the file to it", input.name));
  if (const absl::Status kept = keep_input(input, text); !kept.ok()) return kept;
  return text;
}

bool is_pipe(const std::string& file) {
  struct stat about {};
  return ::stat(file.c_str(), &about) == 0 && S_ISFIFO(about.st_mode);
}

// The descriptor of a pipe that the shell names by its number when a person writes <(command) for a file; −1:
// no such name.
int descriptor_of(const std::string& file) {
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    int number = -1;
    if (file.starts_with(folder) && absl::SimpleAtoi(file.substr(folder.size()), &number)) return number;
  }
  return file == "/dev/stdin" ? STDIN_FILENO : -1;
}

}  // namespace

absl::StatusOr<std::string> read_standard_input(std::int64_t most_bytes) {
  // A descriptor with FD_CLOEXEC cannot have come through exec(): standard input was closed, and a library
  // opened this one.
  const int flags = ::fcntl(STDIN_FILENO, F_GETFD);
  if (flags < 0 || (flags & FD_CLOEXEC) != 0)
    return absl::InvalidArgumentError(fmt::format("{}: is closed; write the file to it", kStandardInput));
  return read_all_of({STDIN_FILENO, kStandardInput}, most_bytes);
}

absl::StatusOr<std::string> read_named_file(const std::string& file, std::int64_t most_bytes) {
  if (file == "-") return read_standard_input(most_bytes);
  if (!is_pipe(file)) return store::read_file(file, most_bytes);
  if (const int descriptor = descriptor_of(file); descriptor >= 0)
    return read_all_of({descriptor, file}, most_bytes);
  return absl::InvalidArgumentError(
      fmt::format("{0}: is a pipe; write - in its place, and < {0} at the end", file));
}

std::string shown_name(const std::string& file) { return file == "-" ? kStandardInput : file; }

}  // namespace paceline::cli
