// In which order blocks of weights leave this host. Hosts that wait for different versions share its link.
// Were all of them sent to at once, each would wait until the last one has its weights, and then all would
// compute, and push, at the same time. So an earlier version goes first.
//
// Of the earliest version on its way all blocks go at once; of later ones a few beside them, so that the link
// is always busy. A host that takes nothing for a while, since it is paused or its link is cut, holds up
// nobody. Of one thread. It has no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>

#include "paceline/base/ids.h"

namespace paceline::exchange {

class SendTurns {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Send = std::function<void()>;
  static constexpr std::size_t kMostBeside = 3;               // blocks
  static constexpr auto kPatience = std::chrono::seconds(1);  // with a host that takes nothing

  // Sends a block of that version to that host, now or when its turn comes.
  void add(int host, Version version, Send send, Time now);
  // One that was sent has gone. Sends what may go now.
  void sent(int host, Version version, Time now);
  // Sends what may go since a host has taken nothing for a while.
  void go_on(Time now);
  bool waiting() const { return !waiting_.empty(); }

 private:
  struct UnderWay {
    std::map<Version, std::size_t> blocks;
    Time moved;  // one has gone, or the first one was sent
  };
  struct Waiting {
    int host;
    Send send;
  };
  bool may_go(Version version, Time now) const;

  std::map<int, UnderWay> under_way_;  // by host; none where there is nothing
  std::multimap<Version, Waiting> waiting_;
};

}  // namespace paceline::exchange
