#include "paceline/simulation/cluster_sim/host_traffic.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/parameters/exchange/commit_exchange.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/processes/server/shards.h"

namespace paceline::cluster_sim {

using exchange::GradientName;
using exchange::Header;

absl::StatusOr<std::unique_ptr<HostTraffic>> HostTraffic::start(World& world, HostTrafficOptions options) {
  std::unique_ptr<HostTraffic> traffic(new HostTraffic(world, std::move(options)));
  PACELINE_RETURN_IF_ERROR(traffic->open());
  return traffic;
}

// The same steps as Exchange::start().
absl::Status HostTraffic::open() {
  const std::size_t hosts = options_.parts.size();
  const auto own = static_cast<std::size_t>(options_.host);
  sums_.resize(hosts);
  early_.resize(hosts);
  neighbours_.resize(hosts);
  for (const int shard : options_.kept) {
    const auto at = static_cast<std::size_t>(shard);
    const auto count = static_cast<int>(hosts);
    const std::int64_t floats = options_.parts[at].size();
    const auto spares = std::make_shared<exchange::SpareFloats>(floats, count);
    sums_[at] = std::make_unique<exchange::Slices>(count, floats, spares);
    early_[at] = std::make_unique<exchange::Slices>(count, floats, spares);
  }
  for (std::size_t host = 0; host < hosts; ++host) {
    if (host == own) continue;
    Neighbour& neighbour = neighbours_[host];
    const std::int64_t floats = options_.parts[host].size(), own_floats = options_.parts[own].size();
    PACELINE_ASSIGN_OR_RETURN(auto board,
                              memory::WeightWriter::create(floats, options_.readers, server::kMostKept));
    neighbour.mirror = std::make_unique<exchange::Mirror>(
        std::move(board), floats, exchange::moving_blocks(options_.parts[host], floats));
    const int slot = memory::WeightWriter::kSlots - 1 - static_cast<int>(host);
    PACELINE_ASSIGN_OR_RETURN(auto reader, memory::WeightReader::open(options_.own_board, own_floats, slot));
    neighbour.outlet = std::make_unique<exchange::Outlet>(
        std::move(reader), exchange::moving_blocks(options_.parts[own], own_floats),
        [this, to = static_cast<int>(host)](Header header, std::span<const float> block,
                                            std::function<void()> sent) {
          header.shard = options_.host;
          options_.send(to, {options_.host, header, {block.begin(), block.end()}});
          options_.when_gone([this, sent = std::move(sent)] {
            if (ended_.ok()) sent();
          });
        });
  }
  return absl::OkStatus();
}

absl::Status HostTraffic::broken(const std::string& promise) const {
  world_.broken(promise);
  return absl::InternalError(promise);
}

void HostTraffic::fail(const absl::Status& why) {
  ended_ = why;
  for (const auto* kind : {&sums_, &early_}) {
    for (const auto& one : *kind) {
      if (one != nullptr) one->fail(why);
    }
  }
}

void HostTraffic::receive(HostMessage message) {
  const Header& header = message.header;
  if (header.kind == exchange::Kind::kKeptHere) return options_.kept_there(header.version);
  if (header.kind == exchange::Kind::kWeights || header.kind == exchange::Kind::kKept)
    return receive_weights(message);
  const int from = message.from;
  neighbours_[static_cast<std::size_t>(from)].deferred.push_back(std::move(message));
  if (try_deferred(from)) options_.arrived();
}

// ---- Gradients ----

void HostTraffic::send(int host, int shard, GradientName gradient, std::int64_t begin,
                       std::span<const float> block) {
  const Header header{.kind = gradient.kind, .version = gradient.version, .begin = begin, .shard = shard};
  options_.send(host, {options_.host, header, {block.begin(), block.end()}});
}

// A block that has to wait holds back only those behind it of its kind and shard, like Exchange::try_deferred().
bool HostTraffic::try_deferred(int host) {
  std::deque<HostMessage>& deferred = neighbours_[static_cast<std::size_t>(host)].deferred;
  std::set<std::pair<exchange::Kind, int>> waiting;
  bool any = false;
  for (HostMessage& one : std::exchange(deferred, {})) {
    const std::pair of(one.header.kind, one.header.shard);
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
  for (std::size_t host = 0; host < neighbours_.size(); ++host)
    any = try_deferred(static_cast<int>(host)) || any;
  if (any) options_.arrived();
}

bool HostTraffic::take(const HostMessage& message) {
  const auto& [from, header, floats] = message;
  exchange::Slices& to = slices(header.shard, header.kind);
  const auto room = to.room(from, header.version, header.begin);
  if (!room.ok()) {
    (void)broken(
        fmt::format("host {} sends host {} {}", from, options_.host, std::string(room.status().message())));
    return true;
  }
  // a skipped gradient arrives for nobody
  if (!*room) return header.kind == exchange::Kind::kEarly && to.skipped(from, header.version);
  std::copy(floats.begin(), floats.end(), (*room)->begin());
  to.arrived(from, header.version, header.begin);
  here_.emplace(header.shard, from, header.kind, header.version);
  return true;
}

// A part is one block.
bool HostTraffic::is_here(int shard, int host, GradientName name) const {
  return here_.contains({shard, host, name.kind, name.version});
}

absl::Status HostTraffic::wait(int shard, int host, GradientName gradient, std::int64_t begin,
                               std::int64_t end) {
  if (options_.broken == Break::kWaitForNoGradient) return absl::OkStatus();
  if (ended_.ok() && !is_here(shard, host, gradient))
    return broken(fmt::format("host {} waits for gradients of host {}", options_.host, host));
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

// ---- Weights ----

void HostTraffic::published(Version version) {
  for (const Neighbour& one : neighbours_) {
    if (one.outlet != nullptr) one.outlet->published(version);
  }
}

void HostTraffic::want(int host, Version version) {
  const auto& outlet = neighbours_[static_cast<std::size_t>(host)].outlet;
  if (outlet != nullptr) outlet->want(version);
}

void HostTraffic::keep(int host, Version version) {
  neighbours_[static_cast<std::size_t>(host)].outlet->keep(version);
}

void HostTraffic::drop(Version version) {
  for (const Neighbour& one : neighbours_) {
    if (one.mirror != nullptr) one.mirror->drop(version);
  }
}

void HostTraffic::release_reader(int slot) {
  for (const Neighbour& one : neighbours_) {
    if (one.mirror != nullptr) one.mirror->release_reader(slot);
  }
}

std::optional<Version> HostTraffic::mirrored(Version newest) const {
  for (const Neighbour& one : neighbours_) {
    if (one.mirror == nullptr) continue;
    if (!one.shown) return std::nullopt;
    newest = std::min(newest, *one.shown);
  }
  return newest;
}

// A version is one block, so no other one is under way.
void HostTraffic::receive_weights(const HostMessage& message) {
  Neighbour& from = neighbours_[static_cast<std::size_t>(message.from)];
  const auto room = from.mirror->room(message.header);
  if (!room.ok() || !*room)
    return (void)broken(fmt::format("host {} has no room for version {} of host {}", options_.host,
                                    message.header.version, message.from));
  if (options_.broken != Break::kStaleMirror || !from.shown)
    std::copy(message.floats.begin(), message.floats.end(), (*room)->begin());
  const auto whole = from.mirror->arrived();
  if (!whole.ok()) return (void)broken(std::string(whole.status().message()));
  if (message.header.kind == exchange::Kind::kWeights) from.shown = message.header.version;
  options_.mirrored(message.header.shard, message.header.version, **room);
  if (message.header.kind == exchange::Kind::kKept)
    options_.send(message.from, {options_.host, {exchange::Kind::kKeptHere, message.header.version}, {}});
}

}  // namespace paceline::cluster_sim
