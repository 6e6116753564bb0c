// What a host does that hears nothing of the coordinator any more: where another host leads the run by now,
// it goes there; where the run is led by nobody for too long, it leads it itself. Looks into the run folder,
// which all hosts share. One thread.
//
// What always holds: whoever holds the run folder's lock leads the run, and nobody else does.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>

#include "paceline/runs/leader.h"

namespace paceline::launch {

class Succession {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  // `host`: this one. `run`: the run's folder, if that is known. A coordinator that is gone is waited for so
  // long, and the host after this one waits a little longer.
  Succession(int host, double patience_s, std::string run, SteadyTime now);

  struct Follow {
    runs::Leader leader;
  };
  struct Lead {
    std::optional<int> lost;  // the host that led until now; nothing: this one did
  };
  struct Over {};  // the run has ended, and this host did not hear of it
  using Step = std::variant<std::monostate, Follow, Lead, Over>;

  // The coordinator answered, and said that this is the run's folder.
  void heard(const std::string& run, SteadyTime now);
  // What is to be done now. Whoever is told to follow does.
  Step look(SteadyTime now);
  // By then somebody leads the run, if anybody can.
  double longest_s() const { return 2 * patience_.count() + 60; }
  // Empty where it was not known, until the coordinator has answered.
  const std::string& run() const { return run_; }

 private:
  const int host_;
  const std::chrono::duration<double> patience_;
  std::string run_;
  int led_by_ = 0;
  SteadyTime heard_;
  SteadyTime looked_;
};

}  // namespace paceline::launch
