// The way of updates to the servers and into the weights, as it is seen from the orders that go in and the
// completions that come out. Costs are learnt, not configured [ours]; algorithms of grouping ask here.
//
// Two costs make up the time from the order of a commit to its completion, its span: what its k members do
// among themselves, T_reduce(k), and what keeps the servers busy, T_global, in which no other commit gets
// through. Updates complete in order, so T_global shows when commits follow each other closely: it is the
// time between two completions. What is left of the span is T_reduce(k).
//
// As long as no two commits have met, T_global is taken for the whole span, which is safe (the path looks
// busy for longer than it is) and then shrinks: grouping by free_soon() sends each commit a little too
// early, and sees how early it could have been. O(1) each.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"

namespace paceline::policy {

class GlobalPath {
 public:
  void ordered(Version version, std::size_t members, Time now);
  // Requires: ordered; versions complete in order.
  void completed(Version version, Time now);

  bool idle() const { return under_way_.empty(); }
  // When a group of so many should be sent, so that its reduction is done as the servers can take its push:
  // free − T_reduce(k), and a twentieth of T_global before. Not when the path is idle: then it is free now.
  // Nothing while nothing is known.
  std::optional<Time> free_soon(std::size_t members) const;
  // Until the servers can take the next push.
  Duration queue(Time now) const;

  Duration global() const { return from_seconds(global_.value_or(0)); }
  // That of the nearest number seen, where this one was not.
  Duration reduce(std::size_t members) const;
  // From the order to the completion of a commit that meets no other: T_reduce(k) + T_global.
  Duration alone(std::size_t members) const { return reduce(members) + global(); }

 private:
  struct UnderWay {
    Version version;
    std::size_t members;
    Time ordered;
    Time expected;  // complete, but for late_
  };
  void learn(const UnderWay& commit, Time now);
  std::optional<double> span(std::size_t members) const;

  std::deque<UnderWay> under_way_;
  Time last_completion_{Time::min()};
  Time free_{};                               // expected
  Duration late_{0};                          // what completions came later than expected, all together
  std::optional<double> global_;              // seconds
  std::vector<std::optional<double>> spans_;  // by members: from order to completion of those that met nobody
};

}  // namespace paceline::policy
