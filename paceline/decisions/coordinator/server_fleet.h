// The servers of a run from the coordinator's view: which are here, which part of the model each keeps, and
// where its weights are. Pure.
//
// Invariant: one server for each shard, and every server gets the same orders in the same sequence.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/id_vector.h"
#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/actions.h"
#include "paceline/decisions/coordinator/job_settings.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/order_log.h"
#include "paceline/decisions/coordinator/phi_accrual.h"
#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/decisions/coordinator/refusal.h"

namespace paceline::coordinator {

class ServerFleet {
 public:
  // One server for each shard of the job: all on one host, or one on each host. `new_key`: makes a key for a
  // link. `folder_on`: the only host that sees the run folder; nothing: all do. The outbox outlives this.
  ServerFleet(const JobSettings& job, Outbox& out, std::function<std::string()> new_key,
              std::optional<HostRank> folder_on = std::nullopt);

  std::size_t size() const { return servers_.size(); }

  // Splits the model into a part for each server. Errors: InvalidArgument when it is too small.
  absl::Status split(const Layout& layout);
  // Splits the model anew: each server gets whole tensors, of about its share of the floats. Requires: split() was called, all
  // servers are on one host, and none is told to start.
  void split_by(std::span<const double> shares);
  // The part of the model's floats that the server keeps. Requires: split.
  double share(ServerId server) const {
    return static_cast<double>(parts_[server].size()) / static_cast<double>(whole_.size());
  }
  // The model. Requires: split.
  const Layout& whole() const { return whole_; }

  // Gives the server its place, or returns why not: there is no such shard; the shard has a server; this
  // server has a place; servers of other hosts cannot reach it, or not by the job's settings.
  std::optional<Refusal> take_place(ServerPeer peer, const ServerHello& hello, SteadyTime at);
  // The server that is not here any more; nothing if the peer had no place.
  std::optional<ServerId> leave(ServerPeer peer);
  std::optional<ServerId> server_of(ServerPeer peer) const;
  bool here(ServerId server) const { return servers_[server].peer.has_value(); }
  std::vector<ServerId> ids() const { return servers_.ids(); }
  bool has(ServerId server) const { return servers_.has(server); }
  // The server's host rank.
  HostRank rank(ServerId server) const { return ranks_[server]; }
  // The place of a host, if there are several. Requires: a server has this rank.
  HostPlace place(HostRank rank) const;
  bool all_here() const;
  // The host ranks of the servers that are not here.
  std::vector<HostRank> missing() const;
  bool none_here() const;
  bool sees_folder(ServerId server) const { return !folder_on_ || ranks_[server] == *folder_on_; }

  // Tells each server to start with its own part; `common` is the same for all. `weights`: a gradient buffer
  // with the initial weights, for each shard; none in a restart. `cards`: what is to have each shard (ServerStart::card);
  // none: the host's memory. `card_holders`: the same for ServerStart::card_holders. Requires: all here, and split.
  void start(const ServerStart& common, const std::vector<std::string>& weights,
             const std::vector<std::string>& cards = {}, const std::vector<std::int32_t>& card_holders = {});
  bool told_to_start() const { return starts_.size() > 0; }
  // The path at which the server was told to find the initial weights. Requires: told to start.
  const std::string& first_weights(ServerId server) const { return starts_[server].weights_path; }
  // Tells a server that could not read its weights to start with those of another worker. Requires: told to
  // start; it is here.
  void start_with(ServerId server, const std::string& weights);
  // The server has started. Errors: out of turn; it does not say where the weights are.
  absl::Status started(ServerId server, const ServerStarted& started);
  bool all_started() const;
  // The boards from which a reader on that host gets the weights. `card`: the card that the reader computes on, empty if
  // there is none. If a shard is on another card, the reader gets the shard's board in the host's memory. nullopt: the
  // reader gets each board as it lies. Requires: all started.
  Boards boards(HostPlace host, int reader, const std::optional<std::string>& card = std::nullopt) const;
  // Whether a reader that computes on this card (empty: on processors) can read every shard where it lies. Shards on
  // other cards do not count if the host's memory has no board of them. Requires: all started.
  bool seen_from(const std::string& card) const;
  // Whether a shard on a card has a board in the host's memory. False before the servers have started.
  bool any_in_both() const;

  // The server has sent a message. `running_since`: from Hearing.
  void hear(ServerId server, SteadyTime at, SteadyTime running_since) {
    servers_[server].heard->heard(at, running_since);
  }
  // A server that has been silent for too long by its own rhythm, and why; nothing if there is none.
  struct Silent {
    ServerId server;
    std::string why;
  };
  std::optional<Silent> silent(SteadyTime now) const;
  // The server that is here with the shard of this hello.
  std::optional<ServerId> in_place_of(const ServerHello& hello) const;
  // The server is gone, and memory that outlives it has its shard: nothing else is of it until it has started again.
  void miss(ServerId server);
  // Whether memory that outlives the server has its shard.
  bool keeps(ServerId server) const { return servers_[server].keeps; }
  // Brings a server that is here again, with this version, to the newest version. False if the orders since then are
  // not known any more. Requires: it was missed.
  bool take_up(ServerId server, Version version);
  // The server has published the version, and maybe later ones.
  void made(ServerId server, Version version) {
    if (log_) log_->made(server, version);
  }
  Version applied(ServerId server) const { return servers_[server].applied; }
  // Ignores the server from now on.
  void give_up(ServerId server) { servers_[server].peer.reset(); }
  // The same, and tells the server to come again as a new one. Requires: it is here.
  void send_back(ServerId server, const std::string& why);

  // The server has made the version. Returns the newest version that all have made. Errors: out of turn; the
  // version is after `ordered`, the newest that is to be made.
  absl::StatusOr<Version> applied(ServerId server, Version version, Version ordered);

  void tell(ServerOrder order);
  // Says that workers of this host need this version. No effect if all processes are on one host.
  void want(HostPlace host, Version version);
  // Requires: it is here.
  void tell_one(ServerId server, ServerOrder order) const {
    out_.send(*servers_[server].peer, std::move(order));
  }
  void send_disconnect(const Disconnect& disconnect) const;

 private:
  struct Server {
    std::optional<ServerPeer> peer;        // nothing: it is not here
    std::string exchange;                  // its address
    std::string fabric;                    // fabric of its exchange
    std::vector<std::string> board_paths;  // empty: the server has not started
    std::string card, socket;              // see Board
    std::string host_path;                 // see ServerStarted
    bool keeps = false;                    // see ServerStarted::kept
    Version applied{};
    std::optional<PhiAccrual> heard;  // set while it is here
  };

  std::optional<Refusal> same_fabric(const std::string& fabric) const;
  std::optional<Refusal> same_family(const std::string& exchange) const;
  bool one_a_host() const { return spread_ != ServerSpread::kOneHost; }
  std::string new_key() const;
  std::optional<ServerId> called(HostRank rank) const;

  Outbox& out_;
  const std::function<std::string()> new_key_;
  IdVector<ServerId, Server> servers_;
  const ServerSpread spread_;
  const bool whole_tensors_, clips_;  // see JobSettings
  Layout whole_;
  const IdVector<ServerId, HostRank> ranks_;  // the servers' host ranks
  const std::vector<HostRank> without_;       // hosts that were given up
  const bool seal_;
  const std::optional<HostRank> folder_on_;
  IdVector<ServerId, Layout> parts_;
  IdVector<ServerId, ServerStart> starts_;  // set once they are told to start
  std::optional<OrderLog> log_;             // the same; only on one host, with one copy of each shard
};

}  // namespace paceline::coordinator
