#include "paceline/sim/network.h"

#include <algorithm>

namespace paceline::sim {

namespace {
constexpr double kBytesPerGbit = 1e9 / 8;
}

Duration Network::latency(const Port& port) const {
  return free() ? Duration::zero() : from_seconds(port.link.latency_us * 1e-6);
}

void Network::join(const config::Link& link) { links_.insert(link.gbps); }
void Network::leave(const config::Link& link) { links_.erase(links_.find(link.gbps)); }

Transfer Network::push(Port& port, Time now) {
  Transfer transfer = pass(port.up, servers_.colocated ? out_ : in_, port, now);
  transfer.end += latency(port);
  return transfer;
}

Transfer Network::pull(Port& port, Time earliest, Time complete) {
  Transfer transfer = pass(port.down, out_, port, earliest);
  transfer.end = std::max(transfer.end, complete) + latency(port);
  return transfer;
}

Transfer Network::pass(Pipe& own, Pipe& shared, const Port& port, Time earliest) {
  if (free()) return {earliest, earliest};
  const Duration own_length = bounded_seconds(moved() / (port.link.gbps * kBytesPerGbit));
  const Duration shared_length = bounded_seconds(moved() / servers_rate());
  const Time start = shared.take(own.take(earliest, own_length), shared_length);
  return {start, start + std::max(own_length, shared_length)};
}

double Network::moved() const {
  const auto bytes = static_cast<double>(bytes_);
  if (!servers_.colocated) return bytes;
  const auto replicas = static_cast<double>(std::max<std::size_t>(1, links_.size()));
  return bytes * (replicas - 1) / replicas;
}

double Network::servers_rate() const {
  if (!servers_.colocated) return static_cast<double>(servers_.count) * servers_.gbps * kBytesPerGbit;
  const double slowest = links_.empty() ? servers_.gbps : *links_.begin();
  return static_cast<double>(std::max<std::size_t>(1, links_.size())) * slowest * kBytesPerGbit;
}

}  // namespace paceline::sim
