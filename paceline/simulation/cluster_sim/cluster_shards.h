// The world of a server in the made-up cluster: real shards (ps/shard.h) on real boards, one of them in memory that
// outlives its server (ps/kept_state.h), and the real exchange of gradients (exchange/commit_exchange.h). Made up are
// the numbers in gradients (numbers.h), the memory of workers, the network, and files on the leader's disk.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/file_descriptor.h"
#include "paceline/parameters/exchange/commit_exchange.h"
#include "paceline/processes/server/shards.h"
#include "paceline/simulation/cluster_sim/host_traffic.h"
#include "paceline/simulation/cluster_sim/process.h"
#include "paceline/simulation/cluster_sim/run_folder.h"

namespace paceline::cluster_sim {

struct Cluster;

// A worker's gradient in shared memory. The memory stays as long as a process has it mapped, even if the
// worker dies.
struct GradientMemory {
  std::int64_t clock = 0;  // the iteration whose gradient it holds; 0: the first weights
  std::pair<std::int32_t, std::int64_t> ready{-1, 0};  // the replica and iteration that are said to be ready
  std::vector<float> floats = {};                      // the whole model's
};

// Ends a server in the middle of an update, as a kill would: what it has written stays in the memory that outlives it.
struct KilledInUpdate {};

class ClusterShards final : public server::Shards {
 public:
  // `prepared` gets the outcome of prepare(). Both outlive this.
  ClusterShards(Cluster& cluster, Process& process, Done prepared)
      : cluster_(cluster), process_(process), prepared_(std::move(prepared)) {}

  // `disk`: the leader's, where files of checkpoints go.
  void begin_session(RunFolder& disk);
  // Other servers notice it. What was begun is given up.
  void end_session();

  // The shard that an earlier server left in memory that the launcher keeps; null: there is none.
  const wire::KeptShard* left() const { return left_ ? &left_->about : nullptr; }
  // The launcher died, and that memory with it.
  void lose_memory() { memory_.reset(); }
  // Throws KilledInUpdate in the next update of a shard that is kept once, after this many of its pieces.
  void die_in_update(int pieces) { pieces_left_ = pieces; }

  const std::string& attempt() const { return attempt_; }
  // The number of shards of the attempt that was started last.
  int count() const { return count_; }
  // Requires: a start.
  Version own_version() const { return own().version(); }
  // The newest version that this host's workers can read, of all shards if there are other hosts. Requires: a start.
  std::optional<Version> readable() const;
  bool in_exchange(const std::string& attempt) const { return exchanging_ && attempt_ == attempt; }
  // Its place among the hosts that are left.
  int place() const { return place_; }
  // Takes a message of another server, in that attempt.
  void receive(const std::string& attempt, const HostMessage& message);
  // Notices that the connection to another server of that attempt has ended.
  void lose_peer(const std::string& attempt);

  void forget() override;
  absl::Status check(const wire::ServerStart& order, wire::ServerStarted& started) override;
  absl::Status start(const wire::ServerStart& order, wire::ServerStarted& started,
                     const Traffic& traffic) override;
  absl::Status map_gradient(const wire::MapGradient& order) override;
  absl::Status unmap_gradient(std::int32_t replica) override;
  absl::Status send_early(const wire::SendEarly& order) override;
  absl::Status send_ahead(const wire::Apply& order) override;
  absl::Status make(const wire::Apply& order) override;
  bool are_ready(const wire::Apply& order) override;
  absl::Status make_early(const wire::Apply& order) override;
  void confirm(Version version) override;
  std::optional<absl::Status> prepare(const wire::Apply& order) override;
  void publish(Version version) override;
  absl::Status keep(const wire::Keep& order) override;
  bool keeps_elsewhere(Version version) override;
  void drop(Version version, bool checkpoint) override;
  void want(int host, Version version) override;
  void release_reader(int reader) override;
  absl::Status write_checkpoint(const wire::WriteCheckpoint& order, Done done) override;
  void write_copy(const server::WriteCopy& copy, Done done) override;
  bool host_lost() override { return host_lost_; }
  void explain(wire::ServerFailed& failed) override;

 private:
  struct Shard {
    int index = 0;  // its number among the job's shards, from 0
    std::int64_t offset = 0;
    std::unique_ptr<ps::Shard> shard;
  };
  // The own shard in memory that outlives its server, as descriptors that the launcher has.
  struct Memory {
    wire::KeptShard about;
    FileDescriptor board, state;
  };
  // The gradients that a commit is made of.
  struct Commit {
    wire::Apply order;
    std::vector<exchange::HostMember> members;  // indexed as the order's
  };
  using Numbers = std::function<absl::StatusOr<PartNumbers>()>;

  ps::Shard& own() const { return *shards_.front().shard; }
  absl::Status new_shards(const wire::ServerStart& order);
  absl::Status take_up(const wire::ServerStart& order);
  // `left`: the memory that an earlier server left; null: new memory.
  absl::Status add_shard(int index, const wire::ServerStart& order, const Memory* left);
  absl::Status begin_with_first(const wire::ServerStart& order);
  absl::Status load(const wire::ServerStart& order);
  absl::Status start_exchange(const wire::ServerStart& order);
  absl::Status traffic_status() const;
  void leave_exchange();
  void send(int host, HostMessage message);
  // The server of that host has started in this attempt.
  void connected(int host);

  absl::StatusOr<int> host_of(std::int32_t replica) const;
  absl::StatusOr<const float*> gradient_of(std::int32_t replica, std::int64_t clock);
  absl::StatusOr<std::vector<exchange::HostMember>> members_of(const wire::Apply& order);
  absl::Status apply(const wire::Apply& order);
  bool all_here(const Commit& commit) const;
  void prepare_if_all_here();
  // Shows a version of a shard to the watch.
  void show(const Shard& shard, const std::string& where) const;
  void write(const std::string& folder, int shard, const Numbers& numbers, const Done& done);
  absl::Status broken(const std::string& promise) const;

  Cluster& cluster_;
  Process& process_;
  const Done prepared_;
  // These outlive a session.
  std::string attempt_;
  int place_ = 0;
  int count_ = 0;
  std::vector<Shard> shards_;  // its own shard and the copy of another
  // These outlive the server.
  std::shared_ptr<Memory> memory_;  // null: the launcher keeps none
  std::shared_ptr<Memory> left_;    // an earlier server's, until this one starts
  // These belong to a session.
  std::uint64_t session_ = 0;
  RunFolder* disk_ = nullptr;
  Traffic told_;
  bool host_lost_ = false;
  // Keyed by replica; null: on another host, or it could not be mapped.
  std::map<std::int32_t, std::shared_ptr<GradientMemory>> gradients_;
  std::map<std::int32_t, int> hosts_;  // the host of each replica
  std::optional<std::int32_t> missing_;
  std::optional<Commit> preparing_;
  bool is_prepared_ = false;  // whether the shards have prepared a version
  bool exchanging_ = false;   // whether the traffic with other hosts goes on
  int evaluator_host_ = 0;
  // The way to another host.
  struct Way {
    SteadyTime last{};                  // when the last message arrives
    std::deque<HostMessage> waiting{};  // until that host's server has started
  };
  std::vector<Way> ways_;                 // indexed by host
  std::unique_ptr<HostTraffic> traffic_;  // null: there are no other hosts
  std::optional<exchange::CommitExchange> commits_;
  std::optional<int> pieces_left_;  // pieces of an update until this server dies
};

}  // namespace paceline::cluster_sim
