#include "paceline/parameters/exchange/send_turns.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::exchange {

namespace {

// Hosts keep their places in this many of the newest versions. In an older one they get new places.
constexpr std::size_t kMostRemembered = 64;

}  // namespace

SendTurns::Turn SendTurns::turn_of(int host, Version version) {
  if (!host_by_host_) return {version};
  if (hosts_.size() > kMostRemembered) hosts_.erase(hosts_.begin());
  std::vector<int>& hosts = hosts_[version];
  const auto found = std::find(hosts.begin(), hosts.end(), host);
  const auto place = static_cast<std::size_t>(found - hosts.begin());
  if (found == hosts.end()) hosts.push_back(host);
  return {version, place};
}

bool SendTurns::may_go(const Turn& turn, Time now) const {
  std::size_t blocks = 0;
  bool earliest = true;
  for (const auto& [host, under_way] : under_way_) {
    if (now - under_way.moved >= kPatience) continue;
    earliest = earliest && turn <= under_way.blocks.begin()->first;
    for (const auto& [of, count] : under_way.blocks) blocks += count;
  }
  return earliest || blocks < kMostBeside;
}

void SendTurns::go_on(Time now) {
  while (!waiting_.empty() && may_go(waiting_.begin()->first, now)) {
    const auto node = waiting_.extract(waiting_.begin());
    const auto& [host, send] = node.mapped();
    UnderWay& under_way = under_way_[host];
    if (under_way.blocks.empty()) under_way.moved = now;
    ++under_way.blocks[node.key()];
    send(node.key());
  }
}

void SendTurns::add(int host, Version version, Send send, Time now) {
  waiting_.emplace(turn_of(host, version), Waiting{host, std::move(send)});
  go_on(now);
}

void SendTurns::sent(int host, const Turn& turn, Time now) {
  const auto found = under_way_.find(host);
  PACELINE_CHECK(found != under_way_.end() && found->second.blocks.contains(turn),
                 "no block of version {} is on its way to host {}", turn.version, host);
  UnderWay& under_way = found->second;
  under_way.moved = now;
  if (--under_way.blocks[turn] == 0) under_way.blocks.erase(turn);
  if (under_way.blocks.empty()) under_way_.erase(found);
  go_on(now);
}

}  // namespace paceline::exchange
