// The time of each server's updates, as the servers measured it: from the beginning of a commit until its
// version was made. The same numbers as config::UpdateTime has.
//
// O(log servers) each, and memory is bounded by their number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/decisions/control/run_listener.h"

namespace paceline::report {

struct MeasuredUpdates {
  std::int32_t server = 0;
  std::int64_t count = 0;
  double mean_ms = 0;                   // the mean over all updates, with any number of members
  double update_ms = 0;                 // an update of one gradient
  std::optional<double> gradient_ms{};  // each further gradient; nothing: all updates had equally many
};

class UpdateTimes {
 public:
  // Ignores side work other than updates.
  void add(const control::SideWork& work);
  // Ascending by server. Each is a line through all its updates, by least squares.
  std::vector<MeasuredUpdates> measured() const;

 private:
  // Sums over updates of x: members − 1, and y: milliseconds.
  struct Sums {
    std::int64_t count = 0;
    double x = 0, y = 0, xx = 0, xy = 0;
  };
  std::map<std::int32_t, Sums> servers_;
};

}  // namespace paceline::report
