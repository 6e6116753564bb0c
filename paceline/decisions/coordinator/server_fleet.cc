#include "paceline/decisions/coordinator/server_fleet.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::coordinator {

namespace {

IdVector<ServerId, HostRank> ranks_or_counted(const std::vector<HostRank>& ranks, std::size_t count) {
  if (!ranks.empty()) return IdVector<ServerId, HostRank>(ranks);
  IdVector<ServerId, HostRank> counted(count);
  for (const ServerId server : counted.ids()) counted[server] = HostRank(server.value());
  return counted;
}

}  // namespace

ServerFleet::ServerFleet(const JobSettings& job, Outbox& out, std::function<std::string()> new_key,
                         std::optional<HostRank> folder_on)
    : out_(out),
      new_key_(std::move(new_key)),
      servers_(static_cast<std::size_t>(job.servers)),
      spread_(job.spread),
      whole_tensors_(job.whole_tensors),
      clips_(job.clips),
      ranks_(ranks_or_counted(job.ranks, servers_.size())),
      without_(job.without),
      seal_(job.seal),
      folder_on_(folder_on) {}

absl::Status ServerFleet::split(const Layout& layout) {
  PACELINE_ASSIGN_OR_RETURN(auto parts,
                            server_parts(layout, static_cast<std::int64_t>(size()), spread_, whole_tensors_));
  parts_ = IdVector<ServerId, Layout>(std::move(parts));
  whole_ = layout;
  return absl::OkStatus();
}

void ServerFleet::split_by(std::span<const double> shares) {
  PACELINE_CHECK(spread_ == ServerSpread::kOneHost && !told_to_start(),
                 "shares of memory for servers that have started");
  parts_ = IdVector<ServerId, Layout>(whole_.split(shares));
}

std::optional<Refusal> ServerFleet::take_place(ServerPeer peer, const ServerHello& hello, SteadyTime at) {
  if (const auto server = server_of(peer)) return Refusal{fmt::format("server {} said hello twice", *server)};
  const HostRank rank = hello.shard;
  if (std::find(without_.begin(), without_.end(), rank) != without_.end())
    return host_given_up(fmt::format("host {}", rank));
  if (one_a_host() && hello.exchange.empty()) {
    return Refusal{
        "the job has several hosts, and this server has no --exchange, an address that the others reach"};
  }
  if (one_a_host()) {
    if (auto other = same_fabric(hello.fabric)) return other;
    if (auto other = same_family(hello.exchange)) return other;
  }
  const std::optional<ServerId> found = called(rank);
  if (!found) return Refusal{fmt::format("the job has no shard {}", rank)};
  if (here(*found)) return place_taken(fmt::format("server {}", rank));
  Server& server = servers_[*found];
  server.peer = peer;
  server.exchange = hello.exchange;
  server.fabric = hello.fabric;
  server.heard.emplace(at);
  return std::nullopt;
}

std::optional<ServerId> ServerFleet::called(HostRank rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  if (found == ranks_.end()) return std::nullopt;
  return ServerId(static_cast<std::int32_t>(found - ranks_.begin()));
}

HostPlace ServerFleet::place(HostRank rank) const {
  const std::optional<ServerId> server = called(rank);
  PACELINE_CHECK(server, "no server is on host {}", rank);
  return HostPlace(server->value());
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

// A host with addresses of both families takes the one by which it reaches host 0, and each may take another one.
std::optional<Refusal> ServerFleet::same_family(const std::string& exchange) const {
  const auto is_ipv6 = [](const std::string& address) { return address.starts_with('['); };
  for (const Server& other : servers_) {
    if (!other.peer || is_ipv6(other.exchange) == is_ipv6(exchange)) continue;
    return Refusal{
        fmt::format("this host's links are at {} and those of another one at {}, and IPv4 does not reach "
                    "IPv6; say --address ADDRESS with one of the same kind on both hosts",
                    exchange, other.exchange)};
  }
  return std::nullopt;
}

std::optional<ServerId> ServerFleet::leave(ServerPeer peer) {
  const auto server = server_of(peer);
  if (server) give_up(*server);
  return server;
}

std::optional<ServerId> ServerFleet::server_of(ServerPeer peer) const {
  const auto found =
      std::find_if(servers_.begin(), servers_.end(), [&](const Server& s) { return s.peer == peer; });
  if (found == servers_.end()) return std::nullopt;
  return ServerId(static_cast<std::int32_t>(found - servers_.begin()));
}

bool ServerFleet::all_here() const {
  return std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.peer.has_value(); });
}

std::vector<HostRank> ServerFleet::missing() const {
  std::vector<HostRank> missing;
  for (const ServerId server : ids()) {
    if (!here(server)) missing.push_back(rank(server));
  }
  return missing;
}

bool ServerFleet::none_here() const {
  return std::none_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.peer.has_value(); });
}

bool ServerFleet::all_started() const {
  return std::none_of(servers_.begin(), servers_.end(),
                      [](const Server& s) { return s.board_paths.empty(); });
}

// A key for one direction between two hosts; empty if there is only one host.
std::string ServerFleet::new_key() const {
  if (!one_a_host()) return {};
  return new_key_();
}

void ServerFleet::start(const ServerStart& common, const std::vector<std::string>& weights,
                        const std::vector<std::string>& cards,
                        const std::vector<std::int32_t>& card_holders) {
  if (!one_a_host() && common.copies <= 1) log_.emplace(size(), common.version);
  // keys[sender][receiver]
  IdVector<ServerId, IdVector<ServerId, std::string>> keys(size(), IdVector<ServerId, std::string>(size()));
  for (auto& of_sender : keys)
    std::generate(of_sender.begin(), of_sender.end(), [this] { return new_key(); });
  std::int64_t offset = 0;
  for (const ServerId server : ids()) {
    ServerStart start = common;
    start.by_call = !sees_folder(server);
    if (sees_folder(server)) start.checkpoint_files.clear();
    start.shard = server.value();
    start.shard_count = static_cast<std::int32_t>(size());
    start.part = parts_[server];
    start.part_offset = offset;
    start.whole_floats = whole_.size();
    if (clips_ && !one_a_host() && size() > 1) start.whole = whole_;
    if (!cards.empty()) start.card = cards[static_cast<std::size_t>(server.value())];
    if (!card_holders.empty()) start.card_holders = card_holders[static_cast<std::size_t>(server.value())];
    if (!weights.empty()) start.weights_path = weights[static_cast<std::size_t>(server.value())];
    for (const ServerId other : one_a_host() ? ids() : std::vector<ServerId>())
      start.hosts.push_back({.exchange = servers_[other].exchange,
                             .part = parts_[other],
                             .send_key = keys[server][other],
                             .receive_key = keys[other][server]});
    starts_.push_back(start);
    tell_one(server, std::move(start));
    offset += parts_[server].size();
  }
}

void ServerFleet::start_with(ServerId server, const std::string& weights) {
  starts_[server].weights_path = weights;
  tell_one(server, starts_[server]);
}

absl::Status ServerFleet::started(ServerId server, const ServerStarted& started) {
  if (!told_to_start() || !servers_[server].board_paths.empty())
    return absl::FailedPreconditionError(fmt::format("server {} started out of turn", server));
  if (started.board_paths.size() != (one_a_host() ? size() : 1))
    return absl::InvalidArgumentError(
        fmt::format("server {} started with {} boards", server, started.board_paths.size()));
  servers_[server].board_paths = started.board_paths;
  servers_[server].card = started.card;
  servers_[server].socket = started.socket;
  servers_[server].host_path = started.host_path;
  servers_[server].keeps = started.kept;
  return absl::OkStatus();
}

Boards ServerFleet::boards(HostPlace host, int reader, const std::optional<std::string>& card) const {
  Boards boards{.boards = {}, .reader = reader};
  for (const ServerId server : ids()) {
    const Server& one = servers_[server];
    if (card && !one.host_path.empty() && one.card != *card) {
      boards.boards.push_back(
          {.path = one.host_path, .part = parts_[server], .bell = one.board_paths.front()});
      continue;
    }
    const std::string& path =
        one_a_host() ? servers_[ServerId(host.value())].board_paths[static_cast<std::size_t>(server.value())]
                     : one.board_paths.front();
    boards.boards.push_back({.path = path, .part = parts_[server], .card = one.card, .socket = one.socket});
  }
  return boards;
}

bool ServerFleet::seen_from(const std::string& card) const {
  return std::none_of(servers_.begin(), servers_.end(),
                      [&](const Server& one) { return !one.host_path.empty() && one.card != card; });
}

bool ServerFleet::any_in_both() const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [](const Server& one) { return !one.host_path.empty(); });
}

absl::StatusOr<Version> ServerFleet::applied(ServerId id, Version version, Version ordered) {
  Server& server = servers_[id];
  if (server.board_paths.empty() || version <= server.applied || version > ordered) {
    return absl::FailedPreconditionError(
        fmt::format("server {} made version {} after {}, and {} is the newest ordered", id, version,
                    server.applied, ordered));
  }
  server.applied = version;
  const auto least = std::min_element(servers_.begin(), servers_.end(),
                                      [](const Server& a, const Server& b) { return a.applied < b.applied; });
  return least->applied;
}

std::optional<ServerFleet::Silent> ServerFleet::silent(SteadyTime now) const {
  for (const ServerId id : ids()) {
    const Server& server = servers_[id];
    if (server.peer && server.heard->dead(now))
      return Silent{id, fmt::format("server {} was {}", id, in_words(*server.heard, now))};
  }
  return std::nullopt;
}

void ServerFleet::send_back(ServerId server, const std::string& why) {
  out_.give_up(*servers_[server].peer, why);
  give_up(server);
}

std::optional<ServerId> ServerFleet::in_place_of(const ServerHello& hello) const {
  const std::optional<ServerId> server = called(hello.shard);
  return server && here(*server) ? server : std::nullopt;
}

void ServerFleet::miss(ServerId server) {
  give_up(server);
  servers_[server].board_paths.clear();
}

bool ServerFleet::take_up(ServerId server, Version version) {
  if (!log_ || !log_->reaches_back_to(version)) return false;
  ServerStart start = starts_[server];
  start.take_up = true;
  start.version = version;
  tell_one(server, std::move(start));
  for (const ServerOrder& one : log_->since(version)) tell_one(server, one);
  return true;
}

void ServerFleet::want(HostPlace host, Version version) {
  if (!one_a_host()) return;
  tell(Want{host, version});
}

void ServerFleet::tell(ServerOrder order) {
  if (log_) log_->told(order);
  std::vector<ServerPeer> here;
  for (const Server& server : servers_) {
    if (server.peer) here.push_back(*server.peer);
  }
  if (!here.empty()) out_.put(SendServers{std::move(here), std::move(order)});
}

void ServerFleet::send_disconnect(const Disconnect& disconnect) const {
  for (const Server& server : servers_) {
    if (server.peer) out_.send_disconnect(*server.peer, disconnect);
  }
}

}  // namespace paceline::coordinator
