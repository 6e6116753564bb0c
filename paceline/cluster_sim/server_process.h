// A server's process in the made-up cluster: the real CommitLog, and shards whose weights are one number.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/cluster_sim/coordinator_process.h"
#include "paceline/cluster_sim/disks.h"
#include "paceline/server/commit_log.h"

namespace paceline::cluster_sim {

// What a worker has in shared memory: it is there as long as somebody has it mapped, even if the worker died.
struct GradientMemory {
  std::int64_t clock = 0;  // whose gradient it holds
};

// What all processes of the cluster find each other by.
struct Cluster {
  World& world;
  Network& network;
  const Scenario& scenario;
  Disks& disks;
  Watch& watch;
  Break broken;
  std::vector<CoordinatorProcess*> coordinators;  // by host; one where there is one launcher
  std::map<int, int> follows;                     // the host whose coordinator each host's processes go to
  int last_leader = 0;                            // the host that began to lead last
  std::map<std::string, std::shared_ptr<GradientMemory>> memory;  // by path
  std::vector<class ServerProcess*> servers;
  std::vector<class WorkerProcess*> workers;

  CoordinatorProcess& coordinator_of(const Process& process) const {
    return *coordinators.at(static_cast<std::size_t>(follows.at(process.host())));
  }
  // Of every shard, published in that attempt; what a worker reads.
  std::optional<Version> readable(const std::string& attempt) const;
  void published();
  // At the other one, as the network has it.
  void later(const Process& from, Process& to, std::function<void()> what) const {
    world.at(network.arrival(from.place(), to.place()), to.happening(std::move(what)));
  }
};

class ServerProcess final : public Process {
 public:
  ServerProcess(Cluster& cluster, int rank, Home home);

  // Workers read this version of its own shard in that attempt; nothing if it has not started.
  std::optional<Version> published(const std::string& attempt) const;
  // It does its part in that attempt.
  bool serves(const std::string& attempt) const { return published(attempt).has_value() && !still(); }
  // Of the attempt that it has started.
  int shard_count() const { return shard_count_; }
  // Of another server: its part of a commit, in that attempt.
  void take_slice(const std::string& attempt, std::int64_t version, int from);
  // The way to another one has ended.
  void lose_peer(const std::string& attempt);
  const std::string& attempt() const { return attempt_; }
  bool in_exchange(const std::string& attempt) const { return exchanging_ && attempt_ == attempt; }

 private:
  struct Shard {
    Version version;
    Content content = kFirstContent;
    std::optional<Content> prepared;  // of the version after
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
  int place_in_job_ = 0;  // among the hosts that are left
  int shard_count_ = 0;
  std::shared_ptr<Stream<ServerKind>> stream_;
  RunFolder* disk_ = nullptr;  // where its files of a checkpoint go: the leader's
  server::CommitLog log_;
  std::string attempt_;
  std::map<int, Shard> shards_;  // its own and the copy
  std::map<Version, Content> kept_;
  std::map<std::int32_t, std::shared_ptr<GradientMemory>> gradients_;  // by replica; null: on another host
  std::deque<wire::ServerOrder> inbox_;
  bool busy_ = false;
  bool exchanging_ = false;
  std::optional<wire::Apply> preparing_;
  std::map<std::int64_t, std::set<int>> slices_;  // that came, by version
  std::set<std::int64_t> sent_;
};

}  // namespace paceline::cluster_sim
