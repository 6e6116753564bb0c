#include "paceline/decisions/coordinator/shard_lengths.h"

#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/printable.h"

namespace paceline::coordinator {

namespace {

constexpr std::size_t kMostShards = std::size_t{1} << 24;  // 40 bytes each; later ones are not compared

}  // namespace

ShardLengths::ShardLengths(const std::vector<ShardRecords>& before) {
  for (const ShardRecords& one : before) known_.try_emplace(one.shard, Known{one.records, std::nullopt});
}

absl::StatusOr<std::vector<ShardRecords>> ShardLengths::learn(const std::string& worker, HostRank host,
                                                              const Said& said) {
  std::vector<ShardRecords> learnt;
  for (const ShardLength& one : said) {
    if (known_.size() >= kMostShards && !known_.contains(one.shard)) continue;
    const auto [at, is_new] = known_.try_emplace(one.shard, Known{one.records, host});
    if (is_new) learnt.push_back({one.shard, one.records});
    const Known& known = at->second;
    if (known.records == one.records) continue;
    const std::string found = fmt::format("{} found {} in the shard '{}' on host {}", worker,
                                          counted(one.records, "record"), printable(one.name), host);
    if (!known.host) {
      return absl::FailedPreconditionError(fmt::format(
          "{}, and the run had found {} there before it was resumed; copy the shard of that time to "
          "host {} and resume the run, or begin a new one",
          found, known.records, host));
    }
    if (*known.host == host) {
      return absl::FailedPreconditionError(fmt::format(
          "{}, where it had {} before; leave shards unchanged while a job uses them, and begin a new run",
          found, known.records));
    }
    return absl::FailedPreconditionError(
        fmt::format("{}, and it has {} on host {}; if that is the right shard, copy it to host {} and resume "
                    "the run, otherwise "
                    "begin a new run with the same shards on all hosts",
                    found, known.records, *known.host, host));
  }
  return learnt;
}

}  // namespace paceline::coordinator
