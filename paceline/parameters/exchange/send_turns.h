// The order in which blocks of weights leave this host. Hosts that wait for different versions share its
// link. If all got their blocks at once, each would wait until the last one has its weights, and then all
// would compute, and push, at the same time. So an earlier version goes first. If one host has all weights,
// only its link is shared, and a version goes to one host after the other as well. If each host has a part,
// all of them would send to the same one at the same time, so there a version goes to all hosts at once.
//
// Blocks of the first turn go at once; a few blocks of later turns go beside them, so that the link is always
// busy. A host that takes nothing for a while, because it is paused or its link is cut, delays no other one.
// For one thread. It has no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "paceline/base/ids.h"

namespace paceline::exchange {

class SendTurns {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // A larger turn comes later.
  struct Turn {
    Version version;
    std::size_t place = 0;  // the host's place, in the order in which hosts wanted that version
    friend auto operator<=>(const Turn&, const Turn&) = default;
  };
  // Sends a block in that turn.
  using Send = std::function<void(const Turn&)>;
  static constexpr std::size_t kMostBeside = 3;  // the most blocks of later turns
  // how long to wait for a host that takes nothing
  static constexpr auto kPatience = std::chrono::seconds(1);

  explicit SendTurns(bool host_by_host = false) : host_by_host_(host_by_host) {}

  // Sends a block of that version to that host, now or when its turn comes.
  void add(int host, Version version, Send send, Time now);
  // A block that was sent in that turn has gone. Sends the blocks that may go now.
  void sent(int host, const Turn& turn, Time now);
  // Sends the blocks that may go because a host has taken nothing for a while.
  void go_on(Time now);
  bool waiting() const { return !waiting_.empty(); }

 private:
  struct UnderWay {
    std::map<Turn, std::size_t> blocks;
    Time moved;  // when a block has gone, or the first one was sent
  };
  struct Waiting {
    int host;
    Send send;
  };
  Turn turn_of(int host, Version version);
  bool may_go(const Turn& turn, Time now) const;

  bool host_by_host_;
  std::map<Version, std::vector<int>> hosts_;  // the hosts of the newest versions, in their places
  std::map<int, UnderWay> under_way_;          // keyed by host; none if nothing is under way
  std::multimap<Turn, Waiting> waiting_;
};

}  // namespace paceline::exchange
