// The servers of a run as the coordinator sees them: who is here, which part of the model each keeps, and
// where its weights lie. Pure.
//
// What always holds: one server a shard, and every server hears the same orders in the same sequence.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/config/job_config.h"
#include "paceline/coordinator/actions.h"
#include "paceline/coordinator/phi_accrual.h"
#include "paceline/coordinator/refusal.h"
#include "paceline/ps/layout.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

class ServerFleet {
 public:
  // A server for each shard of the job: all on one host, or one a host.
  // `new_key`: of a link; the outbox outlives this.
  ServerFleet(const config::JobConfig& job, Outbox& out, std::function<std::string()> new_key);

  std::size_t size() const { return servers_.size(); }

  // A part of the model for each. Errors: InvalidArgument when it is too small.
  absl::Status split(const ps::Layout& layout);

  // The server has that place from now on; or why not: there is no such shard; it has a server; this one has
  // a place; it cannot be reached by those of other hosts, or not as the job has it.
  std::optional<Refusal> take_place(ServerPeer peer, const wire::ServerHello& hello, SteadyTime at);
  // The shard that is without a server now; nothing when it had none.
  std::optional<std::size_t> leave(ServerPeer peer);
  std::optional<std::size_t> shard_of(ServerPeer peer) const;
  bool here(std::size_t shard) const { return servers_[shard].peer.has_value(); }
  // What the server of that shard calls itself.
  int rank(std::size_t shard) const { return ranks_[shard]; }
  // And the other way round. Requires: there is such a server.
  int place(int rank) const;
  bool all_here() const;
  bool none_here() const;

  // Tells each to start with its own part; `common` is what they all get. `weights`: a gradient buffer with
  // the initial weights, for each shard; none in a restart. Requires: all here, and split.
  void start(const wire::ServerStart& common, const std::vector<std::string>& weights);
  bool told_to_start() const { return !starts_.empty(); }
  // Where that server was told to find the initial weights. Requires: told to start.
  const std::string& first_weights(std::size_t shard) const { return starts_[shard].start().weights_path(); }
  // That server could not read them: tells it to start with those of another worker. Requires: told to start;
  // it is here.
  void start_with(std::size_t shard, const std::string& weights);
  // That server has started. Errors: out of turn; it does not say where the weights are.
  absl::Status started(std::size_t shard, const wire::ServerStarted& started);
  bool all_started() const;
  // Where a reader on that host finds the weights. Requires: all started.
  wire::Boards boards(int host, int reader) const;

  // A word of that server came.
  void hear(std::size_t shard, SteadyTime at) { servers_[shard].heard->heard(at); }
  // A server that has said nothing for too long by its own rhythm, in words; nothing when there is none.
  struct Silent {
    std::size_t shard;
    std::string why;
  };
  std::optional<Silent> silent(SteadyTime now) const;
  // Nothing that it says counts any more.
  void give_up(std::size_t shard) { servers_[shard].peer.reset(); }
  // The same, and tells it to come again as a new one. Requires: it is here.
  void send_back(std::size_t shard, const std::string& why);

  // That server has made that version. The newest that all have made. Errors: out of turn; it is after
  // `ordered`, the newest that is to be made.
  absl::StatusOr<Version> applied(std::size_t shard, Version version, Version ordered);

  void tell(const wire::ServerOrder& order) const;
  // Requires: it is here.
  void tell_one(std::size_t shard, const wire::ServerOrder& order) const {
    out_.send(*servers_[shard].peer, order);
  }
  void send_disconnect(const wire::Disconnect& disconnect) const;

 private:
  struct Server {
    std::optional<ServerPeer> peer;        // nothing: it is not here
    std::string exchange;                  // its address
    std::string fabric;                    // of its exchange
    std::vector<std::string> board_paths;  // none: it has not started
    Version applied{};
    std::optional<PhiAccrual> heard;  // while it is here
  };

  std::optional<Refusal> same_fabric(const std::string& fabric) const;
  std::string new_key() const;

  Outbox& out_;
  const std::function<std::string()> new_key_;
  std::vector<Server> servers_;
  const bool one_a_host_;
  const ps::OptimizerConfig optimizer_;
  ps::Layout whole_;
  const std::vector<int> ranks_;    // what they call themselves, by shard
  const std::vector<int> without_;  // hosts that were given up
  const bool seal_;
  std::vector<ps::Layout> parts_;
  std::vector<wire::ServerOrder> starts_;  // by shard, once they are told to
};

}  // namespace paceline::coordinator
