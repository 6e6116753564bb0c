// In which order blocks of weights leave this host. Hosts that wait for different versions share its link.
// Were all of them sent to at once, each would wait until the last one has its weights, and then all would
// compute, and push, at the same time. So an earlier version goes first. Where one host has all weights, only
// its link is shared, and a version goes to one host after the other as well. Where each host has a part, all
// of them would send to the same one at the same time, so there a version goes to all hosts at once.
//
// What has the first turn goes at once; of later turns a few blocks go beside it, so that the link
// is always busy. A host that takes nothing for a while, since it is paused or its link is cut, holds up
// nobody. Of one thread. It has no clock.
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
  // The later one comes later.
  struct Turn {
    Version version;
    std::size_t place = 0;  // of the host, by who wanted that version first
    friend auto operator<=>(const Turn&, const Turn&) = default;
  };
  // Sends a block, in that turn.
  using Send = std::function<void(const Turn&)>;
  static constexpr std::size_t kMostBeside = 3;               // blocks
  static constexpr auto kPatience = std::chrono::seconds(1);  // with a host that takes nothing

  explicit SendTurns(bool host_by_host = false) : host_by_host_(host_by_host) {}

  // Sends a block of that version to that host, now or when its turn comes.
  void add(int host, Version version, Send send, Time now);
  // One that was sent in that turn has gone. Sends what may go now.
  void sent(int host, const Turn& turn, Time now);
  // Sends what may go since a host has taken nothing for a while.
  void go_on(Time now);
  bool waiting() const { return !waiting_.empty(); }

 private:
  struct UnderWay {
    std::map<Turn, std::size_t> blocks;
    Time moved;  // one has gone, or the first one was sent
  };
  struct Waiting {
    int host;
    Send send;
  };
  Turn turn_of(int host, Version version);
  bool may_go(const Turn& turn, Time now) const;

  bool host_by_host_;
  std::map<Version, std::vector<int>> hosts_;  // by place; of the newest versions
  std::map<int, UnderWay> under_way_;          // by host; none where there is nothing
  std::multimap<Turn, Waiting> waiting_;
};

}  // namespace paceline::exchange
