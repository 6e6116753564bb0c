// What updates took each server, as it measured them: from when it turned to a commit until it had made the
// version. The same numbers as config::UpdateTime has.
//
// O(log servers) each, and memory is bounded by their number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/control/run_listener.h"

namespace paceline::report {

struct MeasuredUpdates {
  std::int32_t server = 0;
  std::int64_t count = 0;
  double mean_ms = 0;                   // of an update, whatever its members
  double update_ms = 0;                 // of one gradient
  std::optional<double> gradient_ms{};  // each further one; nothing: all had equally many
};

class UpdateTimes {
 public:
  // Other work than updates is left alone.
  void add(const control::SideWork& work);
  // By server. Each a line through all its updates, by least squares.
  std::vector<MeasuredUpdates> measured() const;

 private:
  // Over updates, of x: members − 1, and y: milliseconds.
  struct Sums {
    std::int64_t count = 0;
    double x = 0, y = 0, xx = 0, xy = 0;
  };
  std::map<std::int32_t, Sums> servers_;
};

}  // namespace paceline::report
