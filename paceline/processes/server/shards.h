// The shards that a server keeps, and its gradients and files, as its orders see them: live
// (server_process/live_shards.h), or in a made-up cluster (cluster_sim/cluster_shards.h). Orders of one session at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <absl/status/status.h>

#include "paceline/base/ids.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/server/commit_log.h"

namespace paceline::server {

// Versions that evaluations and a checkpoint may hold at once, and one for make_early().
inline constexpr int kMostKept = 9;

class Shards {
 public:
  // The outcome of what was begun. Any thread.
  using Done = std::function<void(const absl::Status&)>;
  // Both may be called by any thread: another host keeps that version of the own shard now; and: the traffic with
  // another host has ended.
  struct Traffic {
    std::function<void(Version)> kept_there;
    Done failed;
  };

  virtual ~Shards() = default;

  // No version that is here counts any more.
  virtual void forget() = 0;
  // Looks whether shards can be started like this, and changes nothing. Errors: this server fails. If only this order
  // cannot be carried out, `started` says so.
  virtual absl::Status check(const wire::ServerStart& order, wire::ServerStarted& started) = 0;
  // Starts the shards that the order names, or takes up those that an earlier server left, and says in `started` where
  // they are. Requires: check(). Errors: this server fails, and has no versions. If there is nothing to take up,
  // `started` says so.
  virtual absl::Status start(const wire::ServerStart& order, wire::ServerStarted& started,
                             const Traffic& traffic) = 0;

  // All that follows, except write_copy(), requires a start in this session. Any error: this server fails.
  virtual absl::Status map_gradient(const wire::MapGradient& order) = 0;
  // The gradient is not read any more when this returns.
  virtual absl::Status unmap_gradient(std::int32_t replica) = 0;
  virtual absl::Status send_early(const wire::SendEarly& order) = 0;
  // The gradients of the next commit.
  virtual absl::Status send_ahead(const wire::Apply& order) = 0;

  // Makes the version and publishes it.
  virtual absl::Status make(const wire::Apply& order) = 0;
  // Whether all members of the commit have said, in this host's memory, that their gradients are ready.
  virtual bool are_ready(const wire::Apply& order) = 0;
  // The same as make(), before the order for it. An evaluation may still ask to keep the version before, until confirm().
  virtual absl::Status make_early(const wire::Apply& order) = 0;
  // The order for the version that was made early has come.
  virtual void confirm(Version version) = 0;
  // The same in two steps, for all shards that are kept here. Nothing: the outcome comes later (Server::prepared).
  virtual std::optional<absl::Status> prepare(const wire::Apply& order) = 0;
  virtual void publish(Version version) = 0;

  // Keeps the own shard's newest version until it is dropped, or an earlier one that is still there.
  virtual absl::Status keep(const wire::Keep& order) = 0;
  // True if the evaluator reads this version on another host, which says when it keeps it.
  virtual bool keeps_elsewhere(Version version) = 0;
  // `checkpoint`: a checkpoint kept it, and no evaluator.
  virtual void drop(Version version, bool checkpoint) = 0;
  virtual void want(int host, Version version) = 0;
  virtual void release_reader(int reader) = 0;

  // Begins to write the own shard, of a version that is kept.
  virtual absl::Status write_checkpoint(const wire::WriteCheckpoint& order, Done done) = 0;
  // Begins to write a shard of its newest version, which was made in any session. Nothing changes any more.
  virtual void write_copy(const WriteCopy& copy, Done done) = 0;

  // True if the traffic with another host has ended, which explains any failure from then on.
  virtual bool host_lost() = 0;
  // Adds what is known of the failure.
  virtual void explain(wire::ServerFailed& failed) = 0;
};

}  // namespace paceline::server
