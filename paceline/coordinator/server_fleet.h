// The servers of a run as the coordinator sees them: which are here, which part of the model each keeps, and
// where its weights are. Pure.
//
// Invariant: one server for each shard, and every server gets the same orders in the same sequence.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/id_vector.h"
#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/config/job_config.h"
#include "paceline/config/server_parts.h"
#include "paceline/coordinator/actions.h"
#include "paceline/coordinator/phi_accrual.h"
#include "paceline/coordinator/refusal.h"
#include "paceline/ps/layout.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

class ServerFleet {
 public:
  // A server for each shard of the job: all on one host, or one a host.
  // `new_key`: of a link. `folder_on`: the only host that sees the run folder; nothing: all do. The outbox
  // outlives this.
  ServerFleet(const config::JobConfig& job, Outbox& out, std::function<std::string()> new_key,
              std::optional<HostRank> folder_on = std::nullopt);

  std::size_t size() const { return servers_.size(); }

  // A part of the model for each. Errors: InvalidArgument when it is too small.
  absl::Status split(const ps::Layout& layout);

  // The server has that place from now on; or why not: there is no such shard; it has a server; this one has
  // a place; it cannot be reached by those of other hosts, or not as the job has it.
  std::optional<Refusal> take_place(ServerPeer peer, const wire::ServerHello& hello, SteadyTime at);
  // The one that is not here any more; nothing when it had no place.
  std::optional<ServerId> leave(ServerPeer peer);
  std::optional<ServerId> server_of(ServerPeer peer) const;
  bool here(ServerId server) const { return servers_[server].peer.has_value(); }
  std::vector<ServerId> ids() const { return servers_.ids(); }
  bool has(ServerId server) const { return servers_.has(server); }
  // What that server calls itself.
  HostRank rank(ServerId server) const { return ranks_[server]; }
  // The place of a host of several. Requires: a server calls itself that.
  HostPlace place(HostRank rank) const;
  bool all_here() const;
  bool none_here() const;
  bool sees_folder(ServerId server) const { return !folder_on_ || ranks_[server] == *folder_on_; }

  // Tells each to start with its own part; `common` is what they all get. `weights`: a gradient buffer with
  // the initial weights, for each shard; none in a restart. Requires: all here, and split.
  void start(const wire::ServerStart& common, const std::vector<std::string>& weights);
  bool told_to_start() const { return starts_.size() > 0; }
  // Where that server was told to find the initial weights. Requires: told to start.
  const std::string& first_weights(ServerId server) const { return starts_[server].start().weights_path(); }
  // That server could not read them: tells it to start with those of another worker. Requires: told to start;
  // it is here.
  void start_with(ServerId server, const std::string& weights);
  // That server has started. Errors: out of turn; it does not say where the weights are.
  absl::Status started(ServerId server, const wire::ServerStarted& started);
  bool all_started() const;
  // The card that has the weights; empty if it is the host's memory. Requires: all started.
  const std::string& card() const { return servers_[ServerId(0)].card; }
  // Where a reader on that host finds the weights. Requires: all started.
  wire::Boards boards(HostPlace host, int reader) const;

  // A word of that server came.
  void hear(ServerId server, SteadyTime at) { servers_[server].heard->heard(at); }
  // A server that has said nothing for too long by its own rhythm, in words; nothing when there is none.
  struct Silent {
    ServerId server;
    std::string why;
  };
  std::optional<Silent> silent(SteadyTime now) const;
  // Nothing that it says counts any more.
  void give_up(ServerId server) { servers_[server].peer.reset(); }
  // The same, and tells it to come again as a new one. Requires: it is here.
  void send_back(ServerId server, const std::string& why);

  // That server has made that version. The newest that all have made. Errors: out of turn; it is after
  // `ordered`, the newest that is to be made.
  absl::StatusOr<Version> applied(ServerId server, Version version, Version ordered);

  void tell(const wire::ServerOrder& order) const;
  // Requires: it is here.
  void tell_one(ServerId server, const wire::ServerOrder& order) const {
    out_.send(*servers_[server].peer, order);
  }
  void send_disconnect(const wire::Disconnect& disconnect) const;

 private:
  struct Server {
    std::optional<ServerPeer> peer;        // nothing: it is not here
    std::string exchange;                  // its address
    std::string fabric;                    // of its exchange
    std::vector<std::string> board_paths;  // none: it has not started
    std::string card, socket;              // wire::Board says what these are
    Version applied{};
    std::optional<PhiAccrual> heard;  // while it is here
  };

  std::optional<Refusal> same_fabric(const std::string& fabric) const;
  bool one_a_host() const { return spread_ != config::ServerSpread::kOneHost; }
  std::string new_key() const;
  std::optional<ServerId> called(HostRank rank) const;

  Outbox& out_;
  const std::function<std::string()> new_key_;
  IdVector<ServerId, Server> servers_;
  const config::ServerSpread spread_;
  const ps::OptimizerConfig optimizer_;
  ps::Layout whole_;
  const IdVector<ServerId, HostRank> ranks_;  // what they call themselves
  const std::vector<HostRank> without_;       // hosts that were given up
  const bool seal_;
  const std::optional<HostRank> folder_on_;
  IdVector<ServerId, ps::Layout> parts_;
  IdVector<ServerId, wire::ServerOrder> starts_;  // once they are told to
};

}  // namespace paceline::coordinator
