// The made-up world: time that passes from event to event, chance from one seed, and a trace that a person
// can read. The same seed is the same run, to the last event.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/coordinator/actions.h"

namespace paceline::cluster_sim {

using coordinator::SteadyTime;
using Milliseconds = std::chrono::duration<double, std::milli>;

class World {
 public:
  explicit World(std::uint64_t seed, bool tracing = false) : seed_(seed), rng_(seed), tracing_(tracing) {}

  std::uint64_t seed() const { return seed_; }
  SteadyTime now() const { return now_; }
  Rng& rng() { return rng_; }
  bool chance(double share) { return rng_.uniform() < share; }
  // A time drawn uniformly between these.
  Milliseconds between(double least_ms, double most_ms) {
    return Milliseconds(least_ms + (most_ms - least_ms) * rng_.uniform());
  }

  void at(SteadyTime when, std::function<void()> what);
  void after(Milliseconds delay, std::function<void()> what) {
    at(now_ + std::chrono::duration_cast<SteadyTime::duration>(delay), std::move(what));
  }
  // Runs the next event. False if there is none, or it is after `until`.
  bool step(SteadyTime until);

  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) {
    if (tracing_) add_line(fmt::format(format, std::forward<Args>(args)...));
  }
  // Notes the first broken promise, which ends the run.
  void broken(const std::string& promise) {
    if (complaint_.empty()) complaint_ = promise;
    trace("BROKEN: {}", promise);
  }
  const std::string& complaint() const { return complaint_; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  struct Event {
    SteadyTime at;
    std::uint64_t number;
    std::function<void()> what;
    friend bool operator>(const Event& a, const Event& b) {
      return a.at != b.at ? a.at > b.at : a.number > b.number;
    }
  };

  void add_line(std::string line);

  SteadyTime now_{std::chrono::hours(1)};
  const std::uint64_t seed_;
  Rng rng_;
  const bool tracing_;
  std::vector<Event> heap_;
  std::uint64_t next_ = 0;
  std::string complaint_;
  std::vector<std::string> lines_;
};

}  // namespace paceline::cluster_sim
