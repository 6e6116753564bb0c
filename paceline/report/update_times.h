// What updates took the servers, as far as facts tell: from a commit's order, or from the completion of the
// one before it where that came later, until the servers said that it is complete. Told under policies that
// hear of completion (`cgp`). The same numbers as config::UpdateTime has; in a live run messages are in them.
//
// O(1) each, and memory is bounded.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"

namespace paceline::report {

struct MeasuredUpdates {
  std::int64_t count = 0;
  double mean_ms = 0;                   // of an update, whatever its members
  double update_ms = 0;                 // of one gradient
  std::optional<double> gradient_ms{};  // each further one; nothing: all had equally many
};

class UpdateTimes {
 public:
  void ordered(Version version, std::size_t members, Time now);
  // Versions that it was not told of are left alone: a run that was resumed has some.
  void completed(Version version, Time now);
  // Nothing before the first completion. A line through all updates, by least squares.
  std::optional<MeasuredUpdates> measured() const;

 private:
  static constexpr std::size_t kMostUnderWay = 4096;
  struct UnderWay {
    Version version;
    std::size_t members;
    Time ordered;
  };
  std::deque<UnderWay> under_way_;
  Time latest_completion_{Time::min()};
  // Sums over updates, of x: members − 1, and y: milliseconds.
  std::int64_t count_ = 0;
  double x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

}  // namespace paceline::report
