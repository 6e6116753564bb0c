// Decides what a host does when it no longer hears the coordinator. If another host leads the run, it follows
// that host; if no host leads the run for too long, it leads the run itself. Pure: it takes the contents of
// the run folder, which all hosts share.
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

  // `host`: this one. `run`: the run's folder, if that is known. A coordinator that is gone is waited for so
  // long, and the host after this one waits a little longer.
  LeaderFailover(HostRank host, double patience_s, std::string run, SteadyTime now);

  // As the run folder says.
  struct Leader {
    HostRank host;
    std::string address;
  };
  struct Seen {
    std::optional<Leader> leader;  // nothing: it cannot be read
    bool led = true;               // somebody holds the lock
    bool over = false;             // nobody left a mark: the run has ended
  };

  struct Follow {
    Leader leader;
  };
  struct Lead {
    std::optional<HostRank> lost;  // the host that led until now; nothing: this one did
  };
  struct Over {};  // the run has ended, and this host did not hear of it
  using Step = std::variant<std::monostate, Follow, Lead, Over>;

  // The coordinator answered, and said that this is the run's folder.
  void heard(const std::string& run, SteadyTime now);
  // The first question after that was not answered. The time before it is no silence: this process may have
  // stood still, and asked nothing.
  void not_answered(SteadyTime now) { heard_ = now; }
  // Whether it is time to look into the folder.
  bool wants_to_look(SteadyTime now) const;
  // What is to be done now. The host that is told to follow does.
  Step look(const Seen& seen, SteadyTime now);
  // Empty where it was not known, until the coordinator has answered.
  const std::string& run() const { return run_; }

 private:
  const HostRank host_;
  const std::chrono::duration<double> patience_;
  std::string run_;
  HostRank led_by_;
  SteadyTime heard_;  // since when it may be silent
  std::optional<SteadyTime> looked_;
};

// By then some host leads the run, if any can: for a host that waits this long.
double longest_s(HostRank host, double patience_s);

}  // namespace paceline::supervisor
