// Decides what a host does when it no longer hears the coordinator. If another host leads the run, or the one that led
// is back at another address, it follows that host; if no host leads the run for too long, it leads the run itself.
// Pure: it takes the contents of the run folder, which all hosts share.
//
// Invariant: the holder of the run folder's lock leads the run, and nobody else does.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>

#include "paceline/base/places.h"

namespace paceline::supervisor {

class LeaderFailover {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  // `host`: this host. `run`: the run's folder, if it is known. `patience_s`: how long to wait for a
  // coordinator that is gone; each host waits a little longer than the one before it. Until this host has heard one, it
  // waits ten times as long, but no longer than five minutes for that: the host that led may be starting.
  LeaderFailover(HostRank host, double patience_s, std::string run, SteadyTime now);

  // The leader according to the run folder.
  struct Leader {
    HostRank host;
    std::string address;
  };
  struct Seen {
    std::optional<Leader> leader;  // nothing: it cannot be read
    bool led = true;               // whether a process holds the lock
    bool over = false;             // whether the run has ended: there is no mark
  };

  struct Follow {
    Leader leader;
  };
  struct Lead {
    std::optional<HostRank> lost;  // the host that led until now; nothing: this one did
  };
  struct Over {};  // the run has ended, and this host did not hear of it
  using Step = std::variant<std::monostate, Follow, Lead, Over>;

  // The coordinator answered, and this is the run's folder.
  void heard(const std::string& run, SteadyTime now);
  // The first question after an answer was not answered. The silence begins now: this process may have stood
  // still before, and asked nothing.
  void not_answered(SteadyTime now) { heard_ = now; }
  // True if it is time to look into the folder.
  bool wants_to_look(SteadyTime now) const;
  // The step to take now. A host that is told to follow another one does so.
  Step look(const Seen& seen, SteadyTime now);
  // The host that this one follows, or followed before it led.
  HostRank led_by() const { return led_by_; }
  // The run's folder; empty if it is not known before the coordinator has answered.
  const std::string& run() const { return run_; }

 private:
  const HostRank host_;
  const std::chrono::duration<double> patience_after_;  // once a coordinator was heard
  std::chrono::duration<double> patience_;
  std::string run_;
  HostRank led_by_;
  std::string led_at_;  // address of led_by_, as the folder named it first or this host followed it
  SteadyTime heard_;    // the beginning of the silence
  std::optional<SteadyTime> looked_;
};

// Within this time some host leads the run, if any can; a host waits this long for a leader.
double longest_s(HostRank host, double patience_s);

}  // namespace paceline::supervisor
