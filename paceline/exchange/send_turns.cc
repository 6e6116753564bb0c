#include "paceline/exchange/send_turns.h"

#include <utility>

#include "paceline/base/check.h"

namespace paceline::exchange {

bool SendTurns::may_go(Version version, Time now) const {
  std::size_t blocks = 0;
  bool earliest = true;
  for (const auto& [host, under_way] : under_way_) {
    if (now - under_way.moved >= kPatience) continue;
    earliest = earliest && version <= under_way.blocks.begin()->first;
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
    send();
  }
}

void SendTurns::add(int host, Version version, Send send, Time now) {
  waiting_.emplace(version, Waiting{host, std::move(send)});
  go_on(now);
}

void SendTurns::sent(int host, Version version, Time now) {
  const auto found = under_way_.find(host);
  PACELINE_CHECK(found != under_way_.end() && found->second.blocks.contains(version),
                 "no block of version {} is on its way to host {}", version, host);
  UnderWay& under_way = found->second;
  under_way.moved = now;
  if (--under_way.blocks[version] == 0) under_way.blocks.erase(version);
  if (under_way.blocks.empty()) under_way_.erase(found);
  go_on(now);
}

}  // namespace paceline::exchange
