// The traffic between the servers of a job's hosts, as a commit's gradients use it (commit_exchange.h): over links
// (exchange.h), or in one thread that makes up the network (simulation/cluster_sim/host_traffic.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/exchange/message.h"

namespace paceline::exchange {

// The name of a host's gradients: the version of their commit, or the number of an early one.
struct GradientName {
  GradientName(Version commit) : kind(Kind::kSum), version(commit) {}
  GradientName(EarlyNumber number) : kind(Kind::kEarly), version(number.value()) {}

  Kind kind;
  Version version;
};

// Used by the shard's thread, except where a comment says otherwise.
class GradientTraffic {
 public:
  virtual ~GradientTraffic() = default;

  // The floats in a buffer of a shard's board.
  virtual std::int64_t board_floats(int shard) const = 0;

  // ---- Gradients out ----
  // Sends a block of this host's gradients for a shard that another host keeps. Its memory stays unchanged
  // until flush(); that of an early one may change once it is skipped or its commit is made.
  virtual void send(int host, int shard, GradientName gradient, std::int64_t begin,
                    std::span<const float> block) = 0;
  // Waits until everything that send() was given for that host has gone. Errors: why it never will.
  virtual absl::Status flush(int host) = 0;

  // ---- Gradients in, for a shard that is kept here (slices.h says more) ----
  virtual float* slice(int shard, int host, GradientName gradient) = 0;
  // Any thread.
  virtual absl::Status wait(int shard, int host, GradientName gradient, std::int64_t begin,
                            std::int64_t end) = 0;
  virtual void release(int shard, int host, GradientName gradient) = 0;
  // Gives up early gradients of that host up to this number, although they may still come.
  virtual void skip(int shard, int host, EarlyNumber number) = 0;
  // The own shard waits for this version. Only a few blocks of later versions come at a time, in the order of
  // their versions: a link that carries one commit after another completes the first ones sooner and none of
  // them later. Early gradients come at any time.
  virtual void in_turn(Version version) = 0;

  // ---- Norms of gradients ----
  // Tells the others the squared norm of a commit's averaged gradient over the own shard, and waits for
  // theirs. Returns the sum over all shards, the same number on every host. Requires: versions ascend.
  // Errors: why one never comes.
  virtual absl::StatusOr<double> sum_squares(Version version, double own) = 0;

  // ---- Weights ----
  // The own shard has published this version.
  virtual void published(Version version) = 0;
  // The own shard makes this version now, and those hosts will want it. They get its blocks as they are made:
  // from here, or, if weights are passed on, the first host from here and each other one from the one before
  // it.
  virtual void making(Version version, std::vector<int> hosts) = 0;
  // A block of the version that is being made is whole. Copies it. Any thread.
  virtual void made(Version version, std::int64_t begin, std::span<const float> block) = 0;
};

}  // namespace paceline::exchange
