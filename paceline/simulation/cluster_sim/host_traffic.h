// A server's traffic with the servers of other hosts in the made-up cluster: the real slices (exchange/slices.h) behind
// a network of events. Nothing waits here, so a commit is prepared only when is_here() says so. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "paceline/parameters/exchange/gradient_traffic.h"
#include "paceline/parameters/exchange/slices.h"
#include "paceline/simulation/cluster_sim/world.h"

namespace paceline::cluster_sim {

// A block of a host's gradients on its way to another host.
struct GradientBlock {
  int from = 0;  // its host
  int shard = 0;
  exchange::GradientName name{Version(0)};
  std::int64_t begin = 0;
  std::vector<float> floats{};
};

class HostTraffic final : public exchange::GradientTraffic {
 public:
  // Sends a block to another host, behind all that was sent there before.
  using Send = std::function<void(int host, GradientBlock block)>;

  // `part_floats`: the size of each host's shard. `kept`: the shards whose gradients come to this host. Blocks that
  // had to wait for room may arrive in any call; `arrived` hears of that. `hurries`: nobody waits for gradients, which
  // breaks the protocol on purpose. The world outlives this.
  HostTraffic(World& world, int host, std::vector<std::int64_t> part_floats, const std::vector<int>& kept,
              Send send, std::function<void()> arrived, bool hurries);

  void receive(GradientBlock block);
  // Whether all gradients of that name are here.
  bool is_here(int shard, int host, exchange::GradientName name) const;
  // The traffic has ended.
  void fail(const absl::Status& why);

  std::int64_t board_floats(int shard) const override {
    return part_floats_[static_cast<std::size_t>(shard)];
  }
  void send(int host, int shard, exchange::GradientName gradient, std::int64_t begin,
            std::span<const float> block) override;
  absl::Status flush(int) override { return ended_; }
  float* slice(int shard, int host, exchange::GradientName gradient) override {
    return slices(shard, gradient.kind).slice(host, gradient.version);
  }
  absl::Status wait(int shard, int host, exchange::GradientName gradient, std::int64_t begin,
                    std::int64_t end) override;
  void release(int shard, int host, exchange::GradientName gradient) override;
  void skip(int shard, int host, EarlyNumber number) override;
  // These jobs do not keep all weights on one host, and do not clip gradients. Workers read what all servers have
  // published (Cluster::readable).
  void in_turn(Version) override {}
  absl::StatusOr<double> sum_squares(Version version, double own) override;
  void published(Version) override {}
  void making(Version, std::vector<int>) override {}
  void made(Version, std::int64_t, std::span<const float>) override {}

 private:
  using Name = std::tuple<int, int, exchange::Kind, Version>;  // shard, host, kind, number

  exchange::Slices& slices(int shard, exchange::Kind kind) {
    return *(kind == exchange::Kind::kEarly ? early_ : sums_)[static_cast<std::size_t>(shard)];
  }
  // Returns whether anything arrived.
  bool try_deferred(int host);
  void try_all_deferred();
  bool take(const GradientBlock& block);

  World& world_;
  const int host_;
  const std::vector<std::int64_t> part_floats_;
  const Send send_;
  const std::function<void()> arrived_;
  const bool hurries_;
  std::vector<std::unique_ptr<exchange::Slices>> sums_, early_;  // indexed by shard; null: not kept here
  std::vector<std::deque<GradientBlock>> deferred_;              // blocks without room yet, indexed by host
  std::set<Name> here_;
  absl::Status ended_;
};

}  // namespace paceline::cluster_sim
