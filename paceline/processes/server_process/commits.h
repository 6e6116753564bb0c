// How a server makes versions of its shards: from gradients of this host alone, or with the servers of other hosts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/ids.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/ps/update.h"

namespace paceline::server_process {

class Commits {
 public:
  virtual ~Commits() = default;

  // Paths of the boards from which this host's workers read.
  virtual std::vector<std::string> boards() const = 0;
  // The path of a board in the host's memory for those that do not compute on the shard's card; empty: there is none.
  virtual std::string mirror() const { return ""; }
  // Keeps a version there that the shard keeps: its newest one, or one that was kept there before. No effect if there is
  // no such board.
  virtual absl::Status keep_in_host(Version) { return absl::OkStatus(); }

  virtual absl::Status map_gradient(const wire::MapGradient& order) = 0;
  // The gradient is not read any more when this returns.
  virtual absl::Status unmap_gradient(std::int32_t replica) = 0;
  virtual absl::Status send_early(const wire::SendEarly& order) = 0;

  // Makes the version and publishes it. Errors: those of ps::Shard::apply(); a gradient does not come.
  virtual absl::Status make(const wire::Apply& order) = 0;
  // The same in two steps, for all shards that are kept here.
  virtual absl::Status prepare(const wire::Apply& order) = 0;
  virtual void publish(Version version) = 0;
  // The gradients of the next commit.
  virtual absl::Status send_ahead(const wire::Apply& order) = 0;

  virtual void want(int host, Version version) = 0;
  // True if the evaluator reads this version on another host, which says when it keeps it.
  virtual bool keeps_elsewhere(Version version) = 0;
  // `checkpoint`: a checkpoint kept it, and no evaluator.
  virtual void drop(Version version, bool checkpoint) = 0;
  virtual void release_reader(int slot) = 0;

  // True if the traffic with another host has ended, which explains any failure from then on.
  virtual bool host_lost() = 0;
};

// The update of this commit, without its members.
inline ps::Update update_of(const wire::Apply& order) {
  return {.version = Version(order.version()),
          .members = {},
          .learning_rate = order.learning_rate(),
          .fraction = order.fraction(),
          .only_finite = true,
          .of_differences = order.of_differences()};
}

}  // namespace paceline::server_process
