#include "paceline/tools/cli/data_command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <vector>

#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>
#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/data/idx_files.h"
#include "paceline/computing/data/standard_sets.h"
#include "paceline/processes/launch/print.h"

namespace paceline::cli {

namespace fs = std::filesystem;

namespace {

using data::PublishedFile;
using data::StandardSet;

constexpr char kDigits[] = "digits";

absl::StatusOr<const StandardSet*> find_set(const std::string& name) {
  for (const StandardSet& set : data::standard_sets()) {
    if (set.name == name) return &set;
  }
  return absl::InvalidArgumentError(
      fmt::format("there is no data set '{}'; write one of {}", name, absl::StrJoin(data_sets(), ", ")));
}

bool is_address(const std::string& from) {
  return from.starts_with("https://") || from.starts_with("http://");
}

// Runs curl; what it says on its standard error comes back in one line. Errors: Unavailable.
absl::Status run_curl(const std::string& address, const fs::path& file) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return absl::ResourceExhaustedError("no file descriptors are left");
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  std::vector<std::string> words = {"curl",         "--fail",   "--location",  "--silent",
                                    "--show-error", "--proto",  "=http,https", "--connect-timeout",
                                    "15",           "--output", file.string(), "--url",
                                    address};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  pid_t child = -1;
  const int failed = posix_spawnp(&child, "curl", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  write_end = FileDescriptor();
  if (failed != 0) return absl::UnavailableError("the program curl is not installed");
  std::string said;
  std::array<char, 4096> some;
  for (ssize_t count = 1; count > 0 || (count < 0 && errno == EINTR);) {
    count = read(read_end.get(), some.data(), some.size());
    if (count > 0 && said.size() < some.size()) said.append(some.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  const std::string line = said.substr(0, said.find('\n'));
  return absl::UnavailableError(line.empty() ? "curl failed" : line);
}

std::string names_of(const StandardSet& set) {
  return absl::StrJoin(set.files, ", ",
                       [](std::string* text, const PublishedFile& file) { text->append(file.name); });
}

// Fetches the file into the staging folder, from which add() takes it.
absl::StatusOr<fs::path> fetch(const StandardSet& set, const PublishedFile& file, const std::string& address,
                               const fs::path& into) {
  launch::print(stderr, fmt::format("fetching {}\n", address));
  const absl::Status fetched = run_curl(address, into / file.name);
  if (fetched.ok()) return into / file.name;
  const std::string cannot = fmt::format("cannot fetch {} ({})", address, std::string(fetched.message()));
  if (set.files.size() == 1)
    return absl::UnavailableError(
        fmt::format("{}; fetch {} where there is a network, and add --from {}", cannot, address, file.name));
  return absl::UnavailableError(
      fmt::format("{}; where there is a network, fetch these {} files from {} into one folder: {}; then add "
                  "--from FOLDER",
                  cannot, set.files.size(), address.substr(0, address.rfind('/') + 1), names_of(set)));
}

// The path of `file` on this machine; fetches it first if necessary.
absl::StatusOr<fs::path> find_file(const StandardSet& set, const PublishedFile& file, const std::string& from,
                                   const fs::path& staging) {
  if (from.empty()) return fetch(set, file, set.folder + file.name, staging);
  if (is_address(from)) return fetch(set, file, from.ends_with("/") ? from + file.name : from, staging);
  std::error_code error;
  const fs::path path = fs::is_directory(from, error) ? fs::path(from) / file.name : fs::path(from);
  if (fs::is_regular_file(path, error)) return path;
  if (set.files.size() > 1)
    return absl::InvalidArgumentError(
        fmt::format("--from {}: {} is not there; put {} there, or leave --from out to fetch them from {}",
                    from, file.name, names_of(set), set.folder));
  return absl::InvalidArgumentError(fmt::format(
      "--from {}: {} is not a file; name {} or the folder that it is in, or leave --from out to fetch {}",
      from, path.string(), file.name, set.folder + file.name));
}

// A set of several files cannot come from a single file.
absl::Status check_from(const StandardSet& set, const std::string& from) {
  std::error_code error;
  const bool folder = is_address(from) ? from.ends_with("/") : fs::is_directory(from, error);
  if (set.files.size() == 1 || from.empty() || folder) return absl::OkStatus();
  if (!is_address(from) && !fs::exists(from, error))
    return absl::InvalidArgumentError(fmt::format(
        "--from {}: there is no such folder; name the one where there are {}, or leave --from out "
        "to fetch them from {}",
        from, names_of(set), set.folder));
  return absl::InvalidArgumentError(fmt::format(
      "--from {}: {} has {} files; name the folder, or an address that ends with /, where there are {}", from,
      set.name, set.files.size(), names_of(set)));
}

// Digits are drawn here, and written like MNIST's.
absl::Status put_digits(const DataOptions& options) {
  if (!options.from.empty())
    return absl::InvalidArgumentError("--from: digits are drawn by paceline itself; leave it out");
  PACELINE_ASSIGN_OR_RETURN(data::Staging staging, data::Staging::in(options.directory));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> names, data::write_digits(staging.path()));
  for (const std::string& name : names) staging.add_written(name);
  PACELINE_RETURN_IF_ERROR(staging.finish());
  launch::print(stdout,
                fmt::format("60,000 drawn digits and 10,000 to test with are in {}, in files like MNIST's; "
                            "the built-in models draw them by themselves with --set data.source=digits\n",
                            options.directory));
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> data_sets() {
  std::vector<std::string> names = {kDigits};
  for (const StandardSet& set : data::standard_sets()) names.push_back(set.name);
  return names;
}

absl::Status data_command(const DataOptions& options) {
  if (options.directory.empty())
    return absl::InvalidArgumentError("name the folder that the data set goes to");
  if (options.set == kDigits) return put_digits(options);
  PACELINE_ASSIGN_OR_RETURN(const StandardSet* set, find_set(options.set));
  PACELINE_RETURN_IF_ERROR(check_from(*set, options.from));
  PACELINE_ASSIGN_OR_RETURN(data::Staging staging, data::Staging::in(options.directory));
  for (const PublishedFile& file : set->files) PACELINE_RETURN_IF_ERROR(staging.check_place(file));
  for (const PublishedFile& file : set->files) {
    PACELINE_ASSIGN_OR_RETURN(const fs::path path, find_file(*set, file, options.from, staging.path()));
    PACELINE_RETURN_IF_ERROR(staging.add(file, path));
  }
  PACELINE_RETURN_IF_ERROR(staging.finish());
  launch::print(stdout,
                fmt::format("{} is in {}, as it was published; train on it with --set data.source={}:{}\n",
                            set->name, options.directory, set->name, options.directory));
  return absl::OkStatus();
}

}  // namespace paceline::cli
