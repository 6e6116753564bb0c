// A server's process in the made-up cluster: the real Server over real shards (cluster_shards.h).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/processes/server/commit_log.h"
#include "paceline/processes/server/outbox.h"
#include "paceline/processes/server/server.h"
#include "paceline/simulation/cluster_sim/cluster_shards.h"
#include "paceline/simulation/cluster_sim/coordinator_process.h"
#include "paceline/simulation/cluster_sim/disks.h"

namespace paceline::cluster_sim {

// The parts of the cluster that its processes use to find each other.
struct Cluster {
  World& world;
  Network& network;
  const Scenario& scenario;
  Disks& disks;
  Watch& watch;
  Break broken;
  std::vector<CoordinatorProcess*> coordinators;  // indexed by host; a single one if there is one launcher
  std::map<int, int> follows;                     // the host whose coordinator each host's processes go to
  int last_leader = 0;                            // the host that began to lead last
  std::map<std::string, std::shared_ptr<GradientMemory>> memory;  // keyed by path
  std::vector<class ServerProcess*> servers;
  std::vector<class WorkerProcess*> workers;

  CoordinatorProcess& coordinator_of(const Process& process) const {
    return *coordinators.at(static_cast<std::size_t>(follows.at(process.host())));
  }
  // The newest version that a worker of that host of the job can read of every shard in that attempt.
  std::optional<Version> readable(const std::string& attempt, int host) const;
  void published();
  // Runs `what` at `to`, after the network's delay.
  void later(const Process& from, Process& to, std::function<void()> what) const {
    world.at(network.arrival(from.place(), to.place()), to.happening(std::move(what)));
  }
};

class ServerProcess final : public Process, public server::Outbox {
 public:
  ServerProcess(Cluster& cluster, int rank, Home home);

  // The version of its own shard that workers read in that attempt; nothing if it has not started.
  std::optional<Version> published(const std::string& attempt) const;
  // True if it serves that attempt and does not stand still.
  bool serves(const std::string& attempt) const { return published(attempt).has_value() && !still(); }
  ClusterShards& shards() { return shards_; }
  // A worker has rung.
  void rung();
  // Lets this process die in the middle of an update, and calls `last` then.
  void die_in_update(int pieces, std::function<void()> last) {
    shards_.die_in_update(pieces);
    last_ = std::move(last);
  }
  const ClusterShards& shards() const { return shards_; }

 private:
  void begin() override;
  void gone() override;
  bool send(wire::ServerMessage message) override;
  void connect();
  wire::ServerMessage hello() const;
  void end_session(bool dead);
  void lost();
  void beat();
  void work();
  void take_orders();
  void unless_killed(const std::function<void()>& what);
  void settle(const absl::Status& status);
  void disconnect(const wire::Disconnect& order);

  Cluster& cluster_;
  const int rank_;
  std::shared_ptr<Stream<ServerKind>> stream_;
  server::CommitLog log_;
  ClusterShards shards_;
  std::optional<server::Server> server_;  // the session's
  std::deque<wire::ServerOrder> inbox_;
  std::function<void()> last_;
  bool failed_ = false;  // whether only a disconnect is heeded in this session
};

}  // namespace paceline::cluster_sim
