#include "paceline/processes/runs/leader.h"

#include <vector>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"

namespace paceline::runs {

namespace {
constexpr std::int64_t kLongest = 1000;  // bytes
absl::Status write(const std::filesystem::path& file, const Leader& leader) {
  return store::atomic_write(file, fmt::format("{} {}\n", leader.host, leader.address));
}

absl::StatusOr<Leader> read(const std::filesystem::path& file) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, store::read_file(file, kLongest));
  const std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  Leader leader;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &leader.host) || leader.host < 0)
    return absl::InvalidArgumentError(
        fmt::format("{}: says nothing about a host and an address", file.string()));
  leader.address = words[1];
  return leader;
}

}  // namespace

absl::Status write_leader(const store::RunPaths& run, const Leader& leader) {
  return write(run.leader(), leader);
}

absl::StatusOr<Leader> read_leader(const store::RunPaths& run) { return read(run.leader()); }

absl::Status write_next_leader(const store::RunPaths& run, const Leader& leader) {
  return write(run.next_leader(), leader);
}

absl::StatusOr<Leader> read_next_leader(const store::RunPaths& run) { return read(run.next_leader()); }

}  // namespace paceline::runs
