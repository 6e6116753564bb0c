// A server's traffic with the servers of other hosts in the made-up cluster: the real slices, mirrors and outlets
// (exchange/slices.h, mirror.h, outlet.h) behind a network of events. It stands for exchange/exchange.h, whose thread
// and links it does without. Nothing waits here, so a commit is prepared only when is_here() says so. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "paceline/parameters/exchange/gradient_traffic.h"
#include "paceline/parameters/exchange/mirror.h"
#include "paceline/parameters/exchange/outlet.h"
#include "paceline/parameters/exchange/slices.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/simulation/cluster_sim/scenario.h"
#include "paceline/simulation/cluster_sim/world.h"

namespace paceline::cluster_sim {

// A message to another host's server, like those of links.
struct HostMessage {
  int from = 0;  // its host
  exchange::Header header{};
  std::vector<float> floats{};
};

struct HostTrafficOptions {
  int host = 0;
  std::vector<ps::Layout> parts;  // each host's shard
  std::vector<int> kept;          // the shards whose gradients come to this host
  std::string own_board;          // the path of the own shard's board
  int readers = 1;                // the number of readers of each mirror
  Break broken = Break::kNone;
  // Sends a message to another host, behind all that was sent there before.
  std::function<void(int host, HostMessage message)> send;
  // Calls back after a while in which a message goes, if this server still lives.
  std::function<void(std::function<void()>)> when_gone;
  // Gradients have arrived. Those that had to wait for room may arrive in any call.
  std::function<void()> arrived;
  // Another host's shard is here in this version, to be read or kept.
  std::function<void(int shard, Version version, std::span<const float> weights)> mirrored;
  // Another host keeps that version of the own shard now.
  std::function<void(Version)> kept_there;
};

class HostTraffic final : public exchange::GradientTraffic {
 public:
  // The world outlives this. Errors: those of the memory.
  static absl::StatusOr<std::unique_ptr<HostTraffic>> start(World& world, HostTrafficOptions options);

  void receive(HostMessage message);
  // Whether all gradients of that name are here.
  bool is_here(int shard, int host, exchange::GradientName name) const;
  // The traffic has ended.
  void fail(const absl::Status& why);

  std::int64_t board_floats(int shard) const override {
    return options_.parts[static_cast<std::size_t>(shard)].size();
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
  // These jobs do not keep all weights on one host, and do not clip gradients.
  void in_turn(Version) override {}
  absl::StatusOr<double> sum_squares(Version version, double own) override;
  void making(Version, std::vector<int>) override {}
  void made(Version, std::int64_t, std::span<const float>) override {}
  void published(Version version) override;

  // The same as in exchange/exchange.h.
  void want(int host, Version version);
  void keep(int host, Version version);
  void drop(Version version);
  void release_reader(int slot);
  // The newest version that all mirrors show, or `newest` if that is older; nothing if one has none yet.
  std::optional<Version> mirrored(Version newest) const;

 private:
  using Name = std::tuple<int, int, exchange::Kind, Version>;  // shard, host, kind, number

  exchange::Slices& slices(int shard, exchange::Kind kind) {
    return *(kind == exchange::Kind::kEarly ? early_ : sums_)[static_cast<std::size_t>(shard)];
  }
  // Another host's shard: its mirror here, and the way of the own shard to that host.
  struct Neighbour {
    std::unique_ptr<exchange::Mirror> mirror;
    std::unique_ptr<exchange::Outlet> outlet;
    std::optional<Version> shown;      // the mirror's version
    std::deque<HostMessage> deferred;  // gradients without room yet
  };

  HostTraffic(World& world, HostTrafficOptions options) : world_(world), options_(std::move(options)) {}
  absl::Status open();
  void receive_weights(const HostMessage& message);
  // Returns whether anything arrived.
  bool try_deferred(int host);
  void try_all_deferred();
  bool take(const HostMessage& message);
  absl::Status broken(const std::string& promise) const;

  World& world_;
  const HostTrafficOptions options_;
  std::vector<std::unique_ptr<exchange::Slices>> sums_, early_;  // indexed by shard; null: not kept here
  std::vector<Neighbour> neighbours_;                            // indexed by host
  std::set<Name> here_;
  absl::Status ended_;
};

}  // namespace paceline::cluster_sim
