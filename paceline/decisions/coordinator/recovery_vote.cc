#include "paceline/decisions/coordinator/recovery_vote.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::coordinator {

RecoveryVote::RecoveryVote(ServerShards kept, std::string attempt, Version newest, StateText::Read read)
    : kept_(std::move(kept)),
      attempt_(std::move(attempt)),
      newest_(newest),
      read_(std::move(read)),
      holders_(kept_.size()) {}

absl::Status RecoveryVote::came(ServerId server, const Ballot& ballot) {
  holders_[server].reset();
  if (ballot.attempt != attempt_) return absl::OkStatus();
  const auto servers = static_cast<std::int32_t>(kept_.size());
  if (ballot.shard != server.value() || ballot.shard_count != servers ||
      ballot.copies != static_cast<std::int32_t>(kept_[ServerId(0)].size())) {
    return absl::InvalidArgumentError(fmt::format("shard {} of {} in {} copies is not what server {} keeps",
                                                  ballot.shard, ballot.shard_count, ballot.copies, server));
  }
  const Version certain = ballot.published, made = ballot.made;
  const bool in_turn = certain >= Version(0) && made <= newest_ && ballot.elapsed >= Duration::zero() &&
                       (made == certain || (certain < newest_ && made == certain.next()));
  if (!in_turn) {
    return absl::InvalidArgumentError(
        fmt::format("version {} after {}, of a run that recorded {} commits", made, certain, newest_));
  }
  PACELINE_ASSIGN_OR_RETURN(control::ControllerState state, read_(ballot.state));
  if (state.version != made)
    return absl::InvalidArgumentError(fmt::format("version {} with the state of {}", made, state.version));
  holders_[server] = Holder{certain, {std::move(state), ballot.elapsed}};
  return absl::OkStatus();
}

bool RecoveryVote::has_every_shard(const IdVector<ServerId, bool>& servers) const {
  std::set<ShardId> shards;
  for (const ServerId server : kept_.ids()) {
    if (servers[server]) shards.insert(kept_[server].begin(), kept_[server].end());
  }
  return shards.size() == kept_.size();
}

absl::StatusOr<std::optional<RecoveryVote::Found>> RecoveryVote::found() const {
  Version published;
  for (const auto& holder : holders_) {
    if (holder) published = std::max(published, holder->certain);
  }
  Found found;
  const Holder* least = nullptr;
  for (const auto& holder : holders_) {
    const bool can_make = holder && holder->made.state.version >= published;
    found.holders.push_back(can_make);
    if (can_make && (least == nullptr || holder->made.state.version < least->made.state.version))
      least = &*holder;
  }
  if (least == nullptr || !has_every_shard(found.holders)) return std::nullopt;
  found.snapshot = least->made;
  for (const ServerId server : holders_.ids()) {
    if (!found.holders[server]) continue;
    const CommitQuorum::Snapshot& made = holders_[server]->made;
    if (made.state.version == found.snapshot.state.version && !(made.state == found.snapshot.state)) {
      return absl::InvalidArgumentError(
          fmt::format("server {} has made version {} with another state than another server", server,
                      made.state.version));
    }
  }
  return found;
}

}  // namespace paceline::coordinator
