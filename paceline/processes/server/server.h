// A server while it has a session with a coordinator: carries out what its log of commits says. One thread, except
// if a comment says otherwise.
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
#include "paceline/processes/server/checkpoint_writer.h"
#include "paceline/processes/server/commit_log.h"
#include "paceline/processes/server/commits.h"
#include "paceline/processes/server/gradients.h"
#include "paceline/processes/server/kept_memory.h"
#include "paceline/processes/server/kept_shards.h"
#include "paceline/processes/server/servers_card.h"
#include "paceline/processes/server/session.h"
#include "paceline/processes/server/update_times.h"
#include "paceline/transport/ipc/descriptor_keep.h"

namespace paceline::server {

// A server's state that outlives a session.
struct ServerState {
  CommitLog log{};
  std::optional<ipc::DescriptorKeep> keep{};  // the launcher's, for this server's memory
  std::optional<KeptMemory> left{};           // an earlier server's shard there, until this one starts
  std::unique_ptr<KeptMemory> kept{};   // the own shard's memory there; null: the launcher does not keep it
  std::unique_ptr<ServersCard> card{};  // the card that has the shards; null: the host's memory has them
  std::optional<KeptShards> shards{};
};

class Server {
 public:
  // `exchange`: with the other hosts' servers; null if there are none. All others outlive this.
  Server(Session& session, ServerState& state, UpdateTimes& times,
         std::unique_ptr<exchange::Exchange> exchange);

  // Orders in sequence, until the disconnect. An error has been told to the coordinator.
  absl::Status serve();

 private:
  absl::Status take(wire::ServerOrder order);
  absl::Status act(const Actions& actions);
  absl::Status act(const Make& make);
  absl::Status act(const Prepare& prepare);
  absl::Status act(const SendAhead& ahead);
  absl::Status act(const Publish& publish);
  absl::Status act(const CarryOut& turn);
  absl::Status act(const WriteCopy& copy);
  absl::Status act(const SendMessage& action) { return say(action.message); }
  absl::Status start(const wire::ServerStart& order);
  absl::Status take_up(const wire::ServerStart& order, const config::JobConfig& job);
  absl::StatusOr<std::unique_ptr<ServersCard>> open_card(const std::string& uuid,
                                                         const wire::ServerStart& order) const;
  absl::StatusOr<KeptShards> take_up_shards(const wire::ServerStart& order, const config::JobConfig& job);
  absl::Status begin(const wire::ServerStart& order, wire::ServerMessage message);
  bool can_be_kept(const wire::ServerStart& order, const config::JobConfig& job) const;
  absl::StatusOr<KeptShards> start_shards(const wire::ServerStart& order, const config::JobConfig& job,
                                          const FirstWeights& first, store::CheckpointFiles& saved,
                                          wire::ServerStarted& started);
  absl::Status start_commits(const wire::ServerStart& order, const config::JobConfig& job,
                             const FirstWeights& first);
  absl::Status map_gradient(const wire::MapGradient& order);
  absl::Status check_finite(const wire::Apply& order, const ps::Shard& shard);
  absl::Status keep(const wire::Keep& order);
  absl::Status write_checkpoint(const wire::WriteCheckpoint& order);
  // The host's memory has the weights at their places, or this reads them from the card. Any thread.
  absl::Status write_shard(store::CheckpointFiles& checkpoint, std::span<const float> places,
                           const ps::OptimizerState& state) const;
  void say_failed(const absl::Status& status, bool host_lost);
  // Any thread.
  void say_host_lost(const absl::Status& status);
  bool say_kept(Version version);
  // Any thread. False if the session has ended.
  bool send(wire::ServerMessage message);
  absl::Status say(wire::ServerMessage message);
  void note(const wire::Apply& order, std::chrono::steady_clock::time_point began);

  ps::Shard& own() const { return state_.shards->own(); }

  Session& session_;
  ServerState& state_;
  UpdateTimes& times_;
  int index_ = 0;         // the own shard's number, from 0
  int count_ = 1;         // the number of the job's shards
  bool by_call_ = false;  // files of checkpoints
  std::optional<Gradients> gradients_;
  std::unique_ptr<Commits> commits_;      // set by the start
  Version diverged_;                      // whose weights are not finite; 0: none
  std::vector<std::int32_t> not_finite_;  // its members whose gradients are not
  // Reads the gradients, and the sums of commits_; tells of a host that is lost from a thread of its own.
  std::unique_ptr<exchange::Exchange> exchange_;
  CheckpointWriter writer_;
};

}  // namespace paceline::server
