#include "paceline/runs/leader.h"

#include <vector>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/store/files.h"

namespace paceline::runs {

namespace {
constexpr std::int64_t kLongest = 1000;  // bytes
}  // namespace

absl::Status write_leader(const store::RunPaths& run, const Leader& leader) {
  return store::atomic_write(run.leader(), fmt::format("{} {}\n", leader.host, leader.address));
}

absl::StatusOr<Leader> read_leader(const store::RunPaths& run) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, store::read_file(run.leader(), kLongest));
  const std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  Leader leader;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &leader.host) || leader.host < 0)
    return absl::InvalidArgumentError(
        fmt::format("{}: says nothing about a host and an address", run.leader().string()));
  leader.address = words[1];
  return leader;
}

}  // namespace paceline::runs
