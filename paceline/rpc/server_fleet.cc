#include "paceline/rpc/server_fleet.h"

#include <algorithm>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/config/server_parts.h"
#include "paceline/rpc/goodbye.h"
#include "paceline/rpc/wire.h"

namespace paceline::rpc {

absl::Status ServerFleet::split(const ps::Layout& layout) {
  PACELINE_ASSIGN_OR_RETURN(parts_, config::server_parts(layout, static_cast<std::int64_t>(size())));
  return absl::OkStatus();
}

bool ServerFleet::take_place(const ServerStream::Pointer& stream, std::int32_t shard) {
  const auto place = static_cast<std::size_t>(shard);
  if (place >= size() || servers_[place].stream != nullptr) return false;
  servers_[place].stream = stream;
  return true;
}

std::optional<std::size_t> ServerFleet::leave(const ServerStream::Pointer& stream) {
  const auto shard = shard_of(stream);
  if (shard) servers_[*shard].stream = nullptr;
  return shard;
}

std::optional<std::size_t> ServerFleet::shard_of(const ServerStream::Pointer& stream) const {
  const auto found =
      std::find_if(servers_.begin(), servers_.end(), [&](const Server& s) { return s.stream == stream; });
  if (found == servers_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - servers_.begin());
}

bool ServerFleet::all_here() const {
  return std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.stream != nullptr; });
}

bool ServerFleet::none_here() const {
  return std::none_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.stream != nullptr; });
}

bool ServerFleet::all_started() const {
  return std::none_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.board_path.empty(); });
}

void ServerFleet::start(const wire::ServerStart& common) {
  std::int64_t whole = 0;
  for (const ps::Layout& part : parts_) whole += part.size();
  std::int64_t offset = 0;
  for (std::size_t shard = 0; shard < size(); ++shard) {
    wire::ServerOrder order;
    wire::ServerStart& start = *order.mutable_start();
    start = common;
    start.set_shard(static_cast<std::int32_t>(shard));
    start.set_shard_count(static_cast<std::int32_t>(size()));
    *start.mutable_part() = to_wire(parts_[shard]);
    start.set_part_offset(offset);
    start.set_whole_floats(whole);
    servers_[shard].stream->send(std::move(order));
    offset += parts_[shard].size();
  }
}

wire::Boards ServerFleet::boards(int reader) const {
  wire::Boards message;
  message.set_reader(reader);
  for (std::size_t shard = 0; shard < size(); ++shard) {
    wire::Board* board = message.add_boards();
    board->set_path(servers_[shard].board_path);
    *board->mutable_part() = to_wire(parts_[shard]);
  }
  return message;
}

Version ServerFleet::applied(std::size_t shard, Version version) {
  servers_[shard].applied = version;
  const auto least = std::min_element(servers_.begin(), servers_.end(),
                                      [](const Server& a, const Server& b) { return a.applied < b.applied; });
  return least->applied;
}

void ServerFleet::tell(const wire::ServerOrder& order) const {
  for (const Server& server : servers_) {
    if (server.stream != nullptr) server.stream->send(order);
  }
}

void ServerFleet::say_goodbye(const std::string& why) const {
  for (const Server& server : servers_) {
    if (server.stream != nullptr) rpc::say_goodbye(*server.stream, why);
  }
}

}  // namespace paceline::rpc
