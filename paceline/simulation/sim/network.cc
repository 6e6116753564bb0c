#include "paceline/simulation/sim/network.h"

#include <algorithm>

#include "paceline/transport/collective/cost.h"

namespace paceline::sim {

namespace {
constexpr double kBytesPerGbit = 1e9 / 8;

Duration part_of(Duration whole, double share) { return bounded_seconds(to_seconds(whole) * share); }

// Counting the steps of a ring of k costs O(k²). Of larger ones it is 1 − 1/k, as the count comes to.
constexpr std::size_t kMostCounted = 64;

// The share of the bytes that each member of a group of k sends, and receives, in half of a ring's
// all-reduce.
double ring_share(std::size_t k) {
  if (k > kMostCounted) return 1.0 - 1.0 / static_cast<double>(k);
  static const std::vector<double> kShares = [] {
    constexpr std::int64_t kElements = 1 << 20;
    std::vector<double> shares{0};
    for (std::size_t ranks = 1; ranks <= kMostCounted; ++ranks) {
      const auto traffic = collective::traffic({.algorithm = collective::Algorithm::kRing,
                                                .phases = collective::Phases::kReduceScatter,
                                                .ranks = static_cast<int>(ranks),
                                                .elements = kElements,
                                                .chunk = kElements});
      shares.push_back(static_cast<double>(traffic[0].down) / (sizeof(float) * kElements));
    }
    return shares;
  }();
  return kShares[k];
}

}  // namespace

Duration Network::latency(const Port& port) const {
  return free() ? Duration::zero() : from_seconds(port.link.latency_us * 1e-6);
}

void Network::join(const config::Link& link) { links_.insert(link.gbps); }
void Network::leave(const config::Link& link) { links_.erase(links_.find(link.gbps)); }

Transfer Network::push(Port& port, Time now) {
  Transfer transfer = pass(port.up, servers_.colocated ? out_ : in_, port, bytes_, now);
  transfer.end += latency(port);
  return transfer;
}

Transfer Network::pull(Port& port, Time earliest, Time complete) {
  Transfer transfer = pass(port.down, out_, port, pull_bytes_, earliest);
  transfer.end = std::max(transfer.end, complete) + latency(port);
  return transfer;
}

Transfer Network::pass(Pipe& own, Pipe& shared, const Port& port, std::int64_t bytes, Time earliest) {
  if (free()) return {earliest, earliest};
  const Duration own_time = own_length(port, bytes);
  const Duration shared_time = shared_length(bytes);
  const Time start = shared.take(own.take(earliest, own_time), shared_time);
  return {start, start + std::max(own_time, shared_time)};
}

Duration Network::own_length(const Port& port, std::int64_t bytes) const {
  return bounded_seconds(moved(bytes) / (port.link.gbps * kBytesPerGbit));
}

Duration Network::shared_length(std::int64_t bytes) const {
  return bounded_seconds(moved(bytes) / servers_rate());
}

// A ring's first chunk is complete after k − 1 hops.
Duration Network::group_latency(std::span<Port* const> members) const {
  Duration longest{0};
  for (const Port* member : members) longest = std::max(longest, latency(*member));
  return longest * static_cast<std::int64_t>(members.size());
}

Transfer Network::push_group(std::span<Port* const> members, Time now) {
  if (free()) return {now, now};
  const double share = ring_share(members.size());
  Time start = now;
  Duration slowest{0};
  for (Port* member : members) {
    const Duration own_time = own_length(*member, bytes_);
    start =
        std::max({start, member->up.take(now, own_time), member->down.take(now, part_of(own_time, share))});
    slowest = std::max(slowest, own_time);
  }
  const Duration shared_time = shared_length(bytes_);
  const Time pushes = (servers_.colocated ? out_ : in_).take(start, shared_time);
  return {pushes, pushes + std::max(slowest, shared_time) + group_latency(members)};
}

Transfer Network::pull_group(std::span<Port* const> members, Time earliest, Time complete) {
  if (free()) return {earliest, complete};
  const double share = ring_share(members.size());
  const Duration shared_time = shared_length(pull_bytes_);
  const Time start = out_.take(earliest, shared_time);
  Time end = std::max(start + shared_time, complete);
  for (Port* member : members) {
    const Duration own_time = own_length(*member, pull_bytes_);
    const Duration passed_on = part_of(own_time, share);
    end = std::max(
        {end, member->up.take(start, passed_on) + passed_on, member->down.take(start, own_time) + own_time});
  }
  return {start, end + group_latency(members)};
}

Transfer Network::update(Time begun, Time pushed, std::size_t gradients) {
  const config::UpdateTime& times = servers_.update;
  if (times.none()) return {begun, pushed};
  const Duration length =
      bounded_seconds((times.update_ms + times.gradient_ms * static_cast<double>(gradients - 1)) / 1000);
  const Time start = updating_.take(begun, length);
  ++updates_.count;
  updates_.made += length;
  updates_.queued += start - begun;
  return {start, std::max(pushed, start + length)};
}

double Network::moved(std::int64_t bytes) const {
  const auto whole = static_cast<double>(bytes);
  if (!servers_.colocated) return whole;
  const auto replicas = static_cast<double>(std::max<std::size_t>(1, links_.size()));
  return whole * (replicas - 1) / replicas;
}

double Network::servers_rate() const {
  if (!servers_.colocated) return static_cast<double>(servers_.count) * servers_.gbps * kBytesPerGbit;
  const double slowest = links_.empty() ? servers_.gbps : *links_.begin();
  return static_cast<double>(std::max<std::size_t>(1, links_.size())) * slowest * kBytesPerGbit;
}

}  // namespace paceline::sim
