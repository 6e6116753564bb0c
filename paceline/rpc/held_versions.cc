#include "paceline/rpc/held_versions.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/store/controller_state_json.h"

namespace paceline::rpc {

HeldVersions::HeldVersions(std::vector<std::vector<int>> kept, std::string attempt, Version newest)
    : kept_(std::move(kept)), attempt_(std::move(attempt)), newest_(newest), holders_(kept_.size()) {}

absl::Status HeldVersions::came(std::size_t server, const wire::Held& held) {
  holders_[server].reset();
  if (held.attempt() != attempt_) return absl::OkStatus();
  const auto servers = static_cast<std::int32_t>(kept_.size());
  if (held.shard() != static_cast<std::int32_t>(server) || held.shard_count() != servers ||
      held.copies() != static_cast<std::int32_t>(kept_.front().size())) {
    return absl::InvalidArgumentError(fmt::format("shard {} of {} in {} copies is not what server {} keeps",
                                                  held.shard(), held.shard_count(), held.copies(), server));
  }
  const Version certain(held.certain()), made(held.made());
  const bool in_turn = certain >= Version(0) && made <= newest_ && held.elapsed_ns() >= 0 &&
                       (made == certain || (certain < newest_ && made == certain.next()));
  if (!in_turn) {
    return absl::InvalidArgumentError(
        fmt::format("version {} after {}, of a run that recorded {} commits", made, certain, newest_));
  }
  PACELINE_ASSIGN_OR_RETURN(control::ControllerState state, store::controller_state_from_text(held.state()));
  if (state.version != made)
    return absl::InvalidArgumentError(fmt::format("version {} with the books of {}", made, state.version));
  holders_[server] = Holder{certain, {std::move(state), Duration(held.elapsed_ns())}};
  return absl::OkStatus();
}

bool HeldVersions::every_shard_is_here() const {
  std::set<int> shards;
  for (std::size_t server = 0; server < kept_.size(); ++server) {
    if (holders_[server]) shards.insert(kept_[server].begin(), kept_[server].end());
  }
  return shards.size() == kept_.size();
}

absl::StatusOr<std::optional<HeldVersions::Found>> HeldVersions::found() const {
  if (!every_shard_is_here()) return std::nullopt;
  Found found;
  const Holder* least = nullptr;
  for (const auto& holder : holders_) {
    found.holders.push_back(holder.has_value());
    if (holder && (least == nullptr || holder->made.state.version < least->made.state.version))
      least = &*holder;
  }
  found.books = least->made;
  const Version version = found.books.state.version;
  for (std::size_t server = 0; server < holders_.size(); ++server) {
    const auto& holder = holders_[server];
    if (!holder) continue;
    const bool same = holder->made.state.version != version || holder->made.state == found.books.state;
    if (holder->certain > version || !same) {
      return absl::InvalidArgumentError(
          fmt::format("server {} has published version {}, and another one has made no more than {}{}",
                      server, holder->certain, version, same ? "" : ", with other books"));
    }
  }
  return found;
}

}  // namespace paceline::rpc
