#include "paceline/simulation/cluster_sim/host_traffic.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::cluster_sim {

using exchange::GradientName;

HostTraffic::HostTraffic(World& world, int host, std::vector<std::int64_t> part_floats,
                         const std::vector<int>& kept, Send send, std::function<void()> arrived, bool hurries)
    : world_(world),
      host_(host),
      part_floats_(std::move(part_floats)),
      send_(std::move(send)),
      arrived_(std::move(arrived)),
      hurries_(hurries),
      sums_(part_floats_.size()),
      early_(part_floats_.size()),
      deferred_(part_floats_.size()) {
  const int hosts = static_cast<int>(part_floats_.size());
  for (const int shard : kept) {
    const auto at = static_cast<std::size_t>(shard);
    const auto spares = std::make_shared<exchange::SpareFloats>(part_floats_[at], 2 * hosts);
    sums_[at] = std::make_unique<exchange::Slices>(hosts, part_floats_[at], spares);
    early_[at] = std::make_unique<exchange::Slices>(hosts, part_floats_[at], spares);
  }
}

void HostTraffic::send(int host, int shard, GradientName gradient, std::int64_t begin,
                       std::span<const float> block) {
  send_(host, {host_, shard, gradient, begin, {block.begin(), block.end()}});
}

void HostTraffic::receive(GradientBlock block) {
  const int from = block.from;
  deferred_[static_cast<std::size_t>(from)].push_back(std::move(block));
  if (try_deferred(from)) arrived_();
}

// A block that has to wait holds back only those behind it of its kind and shard, like Exchange::try_deferred().
bool HostTraffic::try_deferred(int host) {
  std::deque<GradientBlock>& deferred = deferred_[static_cast<std::size_t>(host)];
  std::set<std::pair<exchange::Kind, int>> waiting;
  bool any = false;
  for (GradientBlock& one : std::exchange(deferred, {})) {
    const std::pair of(one.name.kind, one.shard);
    if (!waiting.contains(of) && take(one)) {
      any = true;
    } else {
      waiting.insert(of);
      deferred.push_back(std::move(one));
    }
  }
  return any;
}

void HostTraffic::try_all_deferred() {
  bool any = false;
  for (std::size_t host = 0; host < deferred_.size(); ++host)
    any = try_deferred(static_cast<int>(host)) || any;
  if (any) arrived_();
}

bool HostTraffic::take(const GradientBlock& block) {
  const auto& [kind, version] = block.name;
  exchange::Slices& to = slices(block.shard, kind);
  const auto room = to.room(block.from, version, block.begin);
  if (!room.ok()) {
    world_.broken(
        fmt::format("host {} sends host {} {}", block.from, host_, std::string(room.status().message())));
    return true;
  }
  if (!*room)
    return kind == exchange::Kind::kEarly &&
           to.skipped(block.from, version);  // a skipped gradient arrives for nobody
  std::copy(block.floats.begin(), block.floats.end(), (*room)->begin());
  to.arrived(block.from, version, block.begin);
  here_.emplace(block.shard, block.from, kind, version);
  return true;
}

// A part is one block.
bool HostTraffic::is_here(int shard, int host, GradientName name) const {
  return here_.contains({shard, host, name.kind, name.version});
}

void HostTraffic::fail(const absl::Status& why) {
  ended_ = why;
  for (const auto* kind : {&sums_, &early_}) {
    for (const auto& one : *kind) {
      if (one != nullptr) one->fail(why);
    }
  }
}

absl::Status HostTraffic::wait(int shard, int host, GradientName gradient, std::int64_t begin,
                               std::int64_t end) {
  if (hurries_) return absl::OkStatus();
  if (ended_.ok() && !is_here(shard, host, gradient)) {
    const std::string promise = fmt::format("host {} waits for gradients of host {}", host_, host);
    world_.broken(promise);
    return absl::InternalError(promise);
  }
  return slices(shard, gradient.kind).wait(host, gradient.version, begin, end);
}

void HostTraffic::release(int shard, int host, GradientName gradient) {
  slices(shard, gradient.kind).release(host, gradient.version);
  here_.erase({shard, host, gradient.kind, gradient.version});
  try_all_deferred();
}

void HostTraffic::skip(int shard, int host, EarlyNumber number) {
  const Version last(number.value());
  slices(shard, exchange::Kind::kEarly).skip(host, last);
  here_.erase(here_.lower_bound({shard, host, exchange::Kind::kEarly, Version(0)}),
              here_.upper_bound({shard, host, exchange::Kind::kEarly, last}));
  try_all_deferred();
}

absl::StatusOr<double> HostTraffic::sum_squares(Version version, double) {
  return absl::InternalError(fmt::format("nobody clips the gradients of version {}", version));
}

}  // namespace paceline::cluster_sim
