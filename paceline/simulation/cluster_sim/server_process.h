// A server's process in the made-up cluster: the real CommitLog, and shards whose weights are one number.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/processes/server/commit_log.h"
#include "paceline/simulation/cluster_sim/coordinator_process.h"
#include "paceline/simulation/cluster_sim/disks.h"

namespace paceline::cluster_sim {

// A worker's gradient in shared memory. The memory stays as long as a process has it mapped, even if the
// worker dies.
struct GradientMemory {
  std::int64_t clock = 0;  // whose gradient it holds
};

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
  // The newest version that every shard has published in that attempt, which workers read.
  std::optional<Version> readable(const std::string& attempt) const;
  void published();
  // Runs `what` at `to`, after the network's delay.
  void later(const Process& from, Process& to, std::function<void()> what) const {
    world.at(network.arrival(from.place(), to.place()), to.happening(std::move(what)));
  }
};

class ServerProcess final : public Process {
 public:
  ServerProcess(Cluster& cluster, int rank, Home home);

  // The version of its own shard that workers read in that attempt; nothing if it has not started.
  std::optional<Version> published(const std::string& attempt) const;
  // True if it serves that attempt and does not stand still.
  bool serves(const std::string& attempt) const { return published(attempt).has_value() && !still(); }
  // The number of shards of the attempt that it has started.
  int shard_count() const { return shard_count_; }
  // Takes another server's part of a commit, in that attempt.
  void take_slice(const std::string& attempt, std::int64_t version, int from);
  // Notices that the connection to another server of that attempt has ended.
  void lose_peer(const std::string& attempt);
  const std::string& attempt() const { return attempt_; }
  bool in_exchange(const std::string& attempt) const { return exchanging_ && attempt_ == attempt; }

 private:
  struct Shard {
    Version version;
    Content content = kFirstContent;
    std::optional<Content> prepared;  // the content of the next version
  };

  void begin() override;
  void gone() override;
  void connect();
  void lost();
  void beat();
  void take(wire::ServerOrder order);
  void work();
  void start(const wire::ServerStart& order);
  void act(const server::Actions& actions);
  void act(const server::Make& make);
  void act(const server::Prepare& prepare);
  void act(const server::SendAhead& ahead) { send_slices(ahead.commit.version()); }
  void act(const server::Publish& publish);
  void act(const server::CarryOut& turn);
  void act(const server::WriteCopy& copy);
  void act(const server::SendMessage& send) { say(send.message); }
  void say(wire::ServerMessage message);
  void fail(const std::string& why, bool host_lost);
  bool has_gradients(const wire::Apply& commit);
  void send_slices(std::int64_t version);
  void prepare_if_all_here();
  void write(const std::string& folder, int shard, Content content,
             std::function<void(const std::string&)> done);
  void leave_exchange();
  bool scenario_of_hosts() const;

  Cluster& cluster_;
  const int rank_;
  int place_in_job_ = 0;  // its place among the hosts that are left
  int shard_count_ = 0;
  std::shared_ptr<Stream<ServerKind>> stream_;
  RunFolder* disk_ = nullptr;  // the leader's disk, where its files of a checkpoint go
  server::CommitLog log_;
  std::string attempt_;
  std::map<int, Shard> shards_;  // its own shard and the copy of another
  std::map<Version, Content> kept_;
  // keyed by replica; null: on another host
  std::map<std::int32_t, std::shared_ptr<GradientMemory>> gradients_;
  std::deque<wire::ServerOrder> inbox_;
  bool busy_ = false;
  bool exchanging_ = false;
  std::optional<wire::Apply> preparing_;
  std::map<std::int64_t, std::set<int>> slices_;  // for each version, the servers whose slices came
  std::set<std::int64_t> sent_;
};

}  // namespace paceline::cluster_sim
