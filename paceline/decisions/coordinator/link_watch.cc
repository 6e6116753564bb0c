#include "paceline/decisions/coordinator/link_watch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::coordinator {

namespace {

// The least bytes of a payload between servers: a smaller one mostly measures the round trip.
constexpr std::int64_t kLeastFromServers = 64 << 10;
constexpr std::int64_t kServersEvery = 2;  // heartbeats; more if there are more hosts

}  // namespace

// A measurement from the process's receipts since the last report about it. A process that starts again
// counts from zero.
std::optional<control::LinkMeasured> LinkWatch::news(Known& known, const Received& received) {
  const Received before = std::exchange(known, {received}).said;
  const bool goes_on = received.bytes > before.bytes && received.busy > before.busy &&
                       received.times >= before.times && before.bytes >= 0 &&
                       before.busy >= Duration::zero() && before.times >= 0;
  if (!goes_on) return std::nullopt;
  const std::int64_t times = std::max<std::int64_t>(1, received.times - before.times);
  const control::LinkMeasured measured{.bytes = (received.bytes - before.bytes) / times,
                                       .took = (received.busy - before.busy) / times};
  if (measured.bytes < 1 || measured.took <= Duration::zero()) return std::nullopt;
  return measured;
}

std::vector<control::LinkMeasured> LinkWatch::heard(const std::string& process, HostPlace host,
                                                    const Heartbeat& beat, const HostOf& host_of) {
  std::vector<control::LinkMeasured> told;
  for (const Received& received : beat.received) {
    const std::optional<HostPlace> from = host_of(received);
    if (!from || *from == host) continue;
    const bool from_server = received.worker.empty();
    Known& known = known_[{process, from_server ? fmt::format("server {}", received.host) : received.worker}];
    if (from_server && ++known.heard < std::max(kServersEvery, hosts_)) continue;
    auto measured = news(known, received);
    if (!measured || (from_server && measured->bytes < kLeastFromServers)) continue;
    measured->from = *from;
    measured->to = host;
    measured->shared = from_server;
    told.push_back(*measured);
  }
  return told;
}

}  // namespace paceline::coordinator
