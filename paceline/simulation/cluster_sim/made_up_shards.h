// The world of a server in the made-up cluster: shards whose weights are one number, gradients of which only the
// iteration is known, traffic with other servers, and files on the leader's disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/processes/server/shards.h"
#include "paceline/simulation/cluster_sim/process.h"
#include "paceline/simulation/cluster_sim/run_folder.h"

namespace paceline::cluster_sim {

struct Cluster;

// A worker's gradient in shared memory. The memory stays as long as a process has it mapped, even if the
// worker dies.
struct GradientMemory {
  std::int64_t clock = 0;  // whose gradient it holds
};

class MadeUpShards final : public server::Shards {
 public:
  // `prepared` gets the outcome of prepare(). Both outlive this.
  MadeUpShards(Cluster& cluster, Process& process, int rank, Done prepared)
      : cluster_(cluster), process_(process), rank_(rank), prepared_(std::move(prepared)) {}

  // `disk`: the leader's, where files of checkpoints go.
  void begin_session(RunFolder& disk);
  // Other servers notice it. What was begun is given up.
  void end_session();

  // The shard that an earlier server left in memory that the launcher keeps; null: there is none.
  const wire::KeptShard* left() const { return left_ ? &left_->about : nullptr; }
  // The launcher died, and that memory with it.
  void lose_memory() { memory_.reset(); }

  const std::string& attempt() const { return attempt_; }
  // The number of shards of the attempt that was started last.
  int count() const { return count_; }
  // Requires: a start.
  Version own_version() const { return shards_.at(place_).version; }
  bool in_exchange(const std::string& attempt) const { return exchanging_ && attempt_ == attempt; }
  // Takes another server's part of a commit, in that attempt.
  void take_slice(const std::string& attempt, std::int64_t version, int from);
  // Notices that the connection to another server of that attempt has ended.
  void lose_peer(const std::string& attempt);

  void forget() override {
    shards_.clear();
    left_ = memory_;
  }
  absl::Status check(const wire::ServerStart& order, wire::ServerStarted& started) override;
  absl::Status start(const wire::ServerStart& order, wire::ServerStarted& started,
                     const Traffic& traffic) override;
  absl::Status map_gradient(const wire::MapGradient& order) override;
  absl::Status unmap_gradient(std::int32_t replica) override;
  absl::Status send_early(const wire::SendEarly&) override { return absl::OkStatus(); }
  absl::Status send_ahead(const wire::Apply& order) override;
  absl::Status make(const wire::Apply& order) override;
  std::optional<absl::Status> prepare(const wire::Apply& order) override;
  void publish(Version version) override;
  absl::Status keep(Version version, bool again) override;
  bool keeps_elsewhere(Version) override { return false; }
  void drop(Version version, bool checkpoint) override;
  void want(int, Version) override {}
  void release_reader(int) override {}
  absl::Status write_checkpoint(const wire::WriteCheckpoint& order, Done done) override;
  void write_copy(const server::WriteCopy& copy, Done done) override;
  bool host_lost() override { return host_lost_; }
  void explain(wire::ServerFailed& failed) override;

 private:
  struct Shard {
    Version version;
    Content content = 0;
    std::optional<Content> prepared;  // the content of the next version
  };
  using Kept = std::pair<Version, Content>;
  // The own shard in memory that outlives its server.
  struct Memory {
    wire::KeptShard about;
    Content content = 0;
  };

  absl::Status new_shards(const wire::ServerStart& order);
  absl::Status take_up();
  void note_in_memory();
  std::vector<Kept>::iterator kept(Version version);
  void leave_exchange();
  absl::Status traffic_status() const;
  absl::Status has_gradients(const wire::Apply& commit);
  void send_slices(std::int64_t version);
  void prepare_if_all_here();
  void write(const std::string& folder, int shard, Content content, const Done& done);
  absl::Status broken(const std::string& promise) const;

  Cluster& cluster_;
  Process& process_;
  const int rank_;
  const Done prepared_;
  // These outlive a session.
  std::string attempt_;
  int place_ = 0;  // its place among the hosts that are left
  int count_ = 0;
  std::map<int, Shard> shards_;  // its own shard and the copy of another
  // These outlive the server.
  std::optional<Memory> memory_;  // nothing: the launcher keeps none
  std::optional<Memory> left_;    // an earlier server's, until this one starts
  std::vector<Kept> board_;       // versions that an earlier server kept, until the next one is made
  // These belong to a session.
  std::uint64_t session_ = 0;
  RunFolder* disk_ = nullptr;
  Traffic traffic_;
  bool exchanging_ = false;
  bool host_lost_ = false;
  std::vector<Kept> kept_;
  // Keyed by replica; null: on another host, or it could not be mapped.
  std::map<std::int32_t, std::shared_ptr<GradientMemory>> gradients_;
  std::set<std::int32_t> elsewhere_;  // replicas on other hosts
  std::optional<std::int32_t> missing_;
  std::optional<wire::Apply> preparing_;
  std::map<std::int64_t, std::set<int>> slices_;  // for each version, the servers whose slices came
  std::set<std::int64_t> sent_;
};

}  // namespace paceline::cluster_sim
