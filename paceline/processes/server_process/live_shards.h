// A server's shards in the memory of its host or of a card, with the gradients of workers there, files of checkpoints,
// and traffic with other hosts. One thread, except if a comment says otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/exchange/exchange.h"
#include "paceline/processes/server/commit_log.h"
#include "paceline/processes/server/shards.h"
#include "paceline/processes/server_process/checkpoint_writer.h"
#include "paceline/processes/server_process/commits.h"
#include "paceline/processes/server_process/gradients.h"
#include "paceline/processes/server_process/kept_memory.h"
#include "paceline/processes/server_process/kept_shards.h"
#include "paceline/processes/server_process/servers_card.h"
#include "paceline/processes/server_process/session.h"
#include "paceline/processes/server_process/update_times.h"
#include "paceline/transport/ipc/descriptor_keep.h"

namespace paceline::server_process {

// A server's state that outlives a session.
struct ServerState {
  server::CommitLog log{};
  std::optional<ipc::DescriptorKeep> keep{};  // the launcher's, for this server's memory
  std::optional<KeptMemory> left{};           // an earlier server's shard there, until this one starts
  std::unique_ptr<KeptMemory> kept{};   // the own shard's memory there; null: the launcher does not keep it
  std::unique_ptr<ServersCard> card{};  // the card that has the shards; null: the host's memory has them
  std::optional<KeptShards> shards{};
};

// One for each session.
class LiveShards final : public server::Shards {
 public:
  // `exchange`: with the other hosts' servers; null if there are none. All others outlive this.
  LiveShards(Session& session, ServerState& state, UpdateTimes& times,
             std::unique_ptr<exchange::Exchange> exchange);

  void forget() override;
  absl::Status check(const wire::ServerStart& order, wire::ServerStarted& started) override;
  absl::Status start(const wire::ServerStart& order, wire::ServerStarted& started,
                     const Traffic& traffic) override;
  absl::Status map_gradient(const wire::MapGradient& order) override { return commits_->map_gradient(order); }
  absl::Status unmap_gradient(std::int32_t replica) override { return commits_->unmap_gradient(replica); }
  absl::Status send_early(const wire::SendEarly& order) override { return commits_->send_early(order); }
  absl::Status send_ahead(const wire::Apply& order) override { return commits_->send_ahead(order); }
  absl::Status make(const wire::Apply& order) override;
  bool are_ready(const wire::Apply& order) override;
  absl::Status make_early(const wire::Apply& order) override;
  void confirm(Version version) override;
  std::optional<absl::Status> prepare(const wire::Apply& order) override;
  void publish(Version version) override { commits_->publish(version); }
  absl::Status keep(const wire::Keep& order) override;
  bool keeps_elsewhere(Version version) override { return commits_->keeps_elsewhere(version); }
  void drop(Version version, bool checkpoint) override;
  void want(int host, Version version) override { commits_->want(host, version); }
  void release_reader(int reader) override;
  absl::Status write_checkpoint(const wire::WriteCheckpoint& order, Done done) override;
  void write_copy(const server::WriteCopy& copy, Done done) override;
  bool host_lost() override { return commits_ != nullptr && commits_->host_lost(); }
  void explain(wire::ServerFailed& failed) override;

  // The bell of the own shard's board; null before the start.
  std::shared_ptr<const memory::BoardBell> bell() const { return bell_; }

 private:
  absl::StatusOr<KeptShards> take_up_shards(const wire::ServerStart& order);
  absl::StatusOr<KeptShards> new_shards(const wire::ServerStart& order, const FirstWeights& first,
                                        wire::ServerStarted& started);
  absl::StatusOr<std::unique_ptr<ServersCard>> open_card(const std::string& uuid,
                                                         const wire::ServerStart& order) const;
  void let_go_of_memory();
  bool can_be_kept(const wire::ServerStart& order) const;
  absl::StatusOr<KeptShards> start_shards(const wire::ServerStart& order, const FirstWeights& first,
                                          store::CheckpointFiles& saved, wire::ServerStarted& started);
  absl::Status start_commits(const wire::ServerStart& order, const FirstWeights& first,
                             const Traffic& traffic);
  absl::Status check_finite(const wire::Apply& order, const ps::Shard& shard);
  void note(const wire::Apply& order, std::chrono::steady_clock::time_point began);
  // The host's memory has the weights at their places, or this reads them from the card. Any thread.
  absl::Status write_shard(store::CheckpointFiles& checkpoint, std::span<const float> places,
                           const ps::OptimizerState& state) const;

  ps::Shard& own() const { return state_.shards->own(); }

  Session& session_;
  ServerState& state_;
  UpdateTimes& times_;
  config::JobConfig job_;
  FirstWeights first_;    // for the start that was checked
  int index_ = 0;         // the own shard's number, from 0
  int count_ = 1;         // the number of the job's shards
  bool by_call_ = false;  // files of checkpoints
  std::optional<Gradients> gradients_;
  std::unique_ptr<Commits> commits_;  // set by the start
  std::shared_ptr<const memory::BoardBell> bell_;
  Version diverged_;                      // whose weights are not finite; 0: none
  std::vector<std::int32_t> not_finite_;  // its members whose gradients are not
  // Reads the gradients, and the sums of commits_; tells of a host that is lost from a thread of its own.
  std::unique_ptr<exchange::Exchange> exchange_;
  CheckpointWriter writer_;
};

}  // namespace paceline::server_process
