#include "paceline/coordinator/server_fleet.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/config/server_parts.h"
#include "paceline/wire/wire.h"

namespace paceline::coordinator {

namespace {

std::vector<int> ranks_or_counted(std::vector<int> ranks, std::size_t count) {
  if (!ranks.empty()) return ranks;
  ranks.resize(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

ServerFleet::ServerFleet(const config::JobConfig& job, Outbox& out, std::function<std::string()> new_key)
    : out_(out),
      new_key_(std::move(new_key)),
      servers_(static_cast<std::size_t>(job.servers)),
      one_a_host_(job.hosts > 1),
      optimizer_(job.optimizer),
      ranks_(ranks_or_counted(job.ranks, servers_.size())),
      without_(job.without),
      seal_(job.seal) {}

absl::Status ServerFleet::split(const ps::Layout& layout) {
  PACELINE_ASSIGN_OR_RETURN(
      parts_, config::server_parts(layout, static_cast<std::int64_t>(size()), one_a_host_, optimizer_.kind));
  whole_ = layout;
  return absl::OkStatus();
}

std::optional<Refusal> ServerFleet::take_place(ServerPeer peer, const wire::ServerHello& hello,
                                               SteadyTime at) {
  if (const auto shard = shard_of(peer)) return Refusal{fmt::format("server {} said hello twice", *shard)};
  if (std::find(without_.begin(), without_.end(), hello.shard()) != without_.end())
    return host_given_up(fmt::format("host {}", hello.shard()));
  if (one_a_host_ && hello.exchange().empty()) {
    return Refusal{
        "the job has several hosts, and this server has no --exchange, an address that the others reach"};
  }
  if (one_a_host_) {
    if (auto other = same_fabric(hello.fabric())) return other;
  }
  const auto found = std::find(ranks_.begin(), ranks_.end(), hello.shard());
  const auto place = static_cast<std::size_t>(found - ranks_.begin());
  if (place >= size()) return Refusal{fmt::format("the job has no shard {}", hello.shard())};
  if (here(place)) return place_taken(fmt::format("server {}", hello.shard()));
  servers_[place].peer = peer;
  servers_[place].exchange = hello.exchange();
  servers_[place].fabric = hello.fabric();
  servers_[place].heard.emplace(at);
  return std::nullopt;
}

int ServerFleet::place(int rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  PACELINE_CHECK(found != ranks_.end(), "no server is on host {}", rank);
  return static_cast<int>(found - ranks_.begin());
}

std::optional<Refusal> ServerFleet::same_fabric(const std::string& fabric) const {
  if ((fabric == "sealed") != seal_) {
    return Refusal{fmt::format("the job has cluster.seal = {}, and this server was started with --fabric {}",
                               seal_, fabric)};
  }
  for (const Server& other : servers_) {
    if (!other.peer || other.fabric == fabric) continue;
    return Refusal{fmt::format(
        "this host's links go over {} and those of another one over {}; set cluster.fabric to one "
        "of them in the job of every host",
        fabric, other.fabric)};
  }
  return std::nullopt;
}

std::optional<std::size_t> ServerFleet::leave(ServerPeer peer) {
  const auto shard = shard_of(peer);
  if (shard) give_up(*shard);
  return shard;
}

std::optional<std::size_t> ServerFleet::shard_of(ServerPeer peer) const {
  const auto found =
      std::find_if(servers_.begin(), servers_.end(), [&](const Server& s) { return s.peer == peer; });
  if (found == servers_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - servers_.begin());
}

bool ServerFleet::all_here() const {
  return std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.peer.has_value(); });
}

bool ServerFleet::none_here() const {
  return std::none_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.peer.has_value(); });
}

bool ServerFleet::all_started() const {
  return std::none_of(servers_.begin(), servers_.end(),
                      [](const Server& s) { return s.board_paths.empty(); });
}

// Of one direction between two hosts; empty where there is one host.
std::string ServerFleet::new_key() const {
  if (!one_a_host_) return {};
  return new_key_();
}

void ServerFleet::start(const wire::ServerStart& common, const std::vector<std::string>& weights) {
  // By sender and receiver.
  std::vector<std::vector<std::string>> keys(size(), std::vector<std::string>(size()));
  for (auto& of_sender : keys)
    std::generate(of_sender.begin(), of_sender.end(), [this] { return new_key(); });
  std::int64_t offset = 0;
  for (std::size_t shard = 0; shard < size(); ++shard) {
    wire::ServerOrder order;
    wire::ServerStart& start = *order.mutable_start();
    start = common;
    start.set_shard(static_cast<std::int32_t>(shard));
    start.set_shard_count(static_cast<std::int32_t>(size()));
    *start.mutable_part() = wire::to_wire(parts_[shard]);
    start.set_part_offset(offset);
    start.set_whole_floats(whole_.size());
    if (optimizer_.clip > 0 && !one_a_host_ && size() > 1) *start.mutable_whole() = wire::to_wire(whole_);
    if (!weights.empty()) start.set_weights_path(weights[shard]);
    for (std::size_t other = 0; one_a_host_ && other < size(); ++other) {
      wire::HostShard& host = *start.add_hosts();
      host.set_exchange(servers_[other].exchange);
      *host.mutable_part() = wire::to_wire(parts_[other]);
      host.set_send_key(keys[shard][other]);
      host.set_receive_key(keys[other][shard]);
    }
    tell_one(shard, starts_.emplace_back(std::move(order)));
    offset += parts_[shard].size();
  }
}

void ServerFleet::start_with(std::size_t shard, const std::string& weights) {
  starts_[shard].mutable_start()->set_weights_path(weights);
  tell_one(shard, starts_[shard]);
}

absl::Status ServerFleet::started(std::size_t shard, const wire::ServerStarted& started) {
  if (!told_to_start() || !servers_[shard].board_paths.empty())
    return absl::FailedPreconditionError(fmt::format("server {} started out of turn", shard));
  if (static_cast<std::size_t>(started.board_paths_size()) != (one_a_host_ ? size() : 1))
    return absl::InvalidArgumentError(
        fmt::format("server {} started with {} boards", shard, started.board_paths_size()));
  servers_[shard].board_paths.assign(started.board_paths().begin(), started.board_paths().end());
  return absl::OkStatus();
}

wire::Boards ServerFleet::boards(int host, int reader) const {
  wire::Boards message;
  message.set_reader(reader);
  for (std::size_t shard = 0; shard < size(); ++shard) {
    wire::Board* board = message.add_boards();
    board->set_path(one_a_host_ ? servers_[static_cast<std::size_t>(host)].board_paths[shard]
                                : servers_[shard].board_paths.front());
    *board->mutable_part() = wire::to_wire(parts_[shard]);
  }
  return message;
}

absl::StatusOr<Version> ServerFleet::applied(std::size_t shard, Version version, Version ordered) {
  Server& server = servers_[shard];
  if (server.board_paths.empty() || version <= server.applied || version > ordered) {
    return absl::FailedPreconditionError(
        fmt::format("server {} made version {} after {}, and {} is the newest ordered", shard, version,
                    server.applied, ordered));
  }
  server.applied = version;
  const auto least = std::min_element(servers_.begin(), servers_.end(),
                                      [](const Server& a, const Server& b) { return a.applied < b.applied; });
  return least->applied;
}

std::optional<ServerFleet::Silent> ServerFleet::silent(SteadyTime now) const {
  for (std::size_t shard = 0; shard < size(); ++shard) {
    const Server& server = servers_[shard];
    if (server.peer && server.heard->dead(now))
      return Silent{shard, fmt::format("server {} was {}", shard, in_words(*server.heard, now))};
  }
  return std::nullopt;
}

void ServerFleet::send_back(std::size_t shard, const std::string& why) {
  out_.give_up(*servers_[shard].peer, why);
  give_up(shard);
}

void ServerFleet::tell(const wire::ServerOrder& order) const {
  for (const Server& server : servers_) {
    if (server.peer) out_.send(*server.peer, order);
  }
}

void ServerFleet::send_disconnect(const wire::Disconnect& disconnect) const {
  for (const Server& server : servers_) {
    if (server.peer) out_.send_disconnect(*server.peer, disconnect);
  }
}

}  // namespace paceline::coordinator
