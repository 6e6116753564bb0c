#include "paceline/tools/cli/startable_program.h"

#include <filesystem>

#include <absl/strings/match.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"

namespace paceline::cli {

namespace fs = std::filesystem;

absl::StatusOr<std::string> absolute_program(const std::string& path) {
  std::error_code ignored;
  const bool named = path.find('/') == std::string::npos && !fs::is_regular_file(path, ignored);
  if (named) return path;
  return store::absolute_path(path);
}

absl::StatusOr<std::string> startable_program(const std::string& run, const std::string& folder) {
  std::error_code ignored;
  const fs::path there = fs::path(folder) / run;
  const fs::file_status seen = fs::status(there, ignored);
  const bool own =
      run == "-" || run == "/dev/stdin" || run.starts_with("/dev/fd/");  // a file of this process alone
  if (own || fs::is_fifo(seen) || fs::is_character_file(seen) || fs::is_socket(seen))
    return absl::InvalidArgumentError(fmt::format(
        "{}: a job starts its program anew for each worker, and can read this only once; write the "
        "program to a file and start it with `paceline run FILE`",
        run == "-" ? "standard input" : run));
  if (fs::is_directory(seen) && folder.empty()) {
    if (fs::exists(there / "__main__.py", ignored)) return store::absolute_path(there / "__main__.py");
    if (run.find('/') != std::string::npos)
      return absl::InvalidArgumentError(
          fmt::format("{}: is a folder without a __main__.py; name the script in it", run));
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string path, absolute_program(run));
  const fs::path script = fs::path(folder) / path;
  if (absl::EndsWith(path, ".py") && !fs::exists(script, ignored))
    return absl::NotFoundError(fmt::format("{}: no such file; check the path", script.string()));
  return path;
}

}  // namespace paceline::cli
