// Estimates from measurements of machines: moving averages that a single odd value hardly moves, and how long
// a device's states last. Pure and small; for online_planner.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "paceline/decisions/planner/cluster.h"

namespace paceline::planner {

// The running level of a positive quantity. A value far from the level counts as an outlier, and only as far
// as the usual spread. A second one in a row on the same side counts as a change, and the level jumps there.
class ClippedMean {
 public:
  explicit ClippedMean(double start) : level_(std::log(start)) {}

  void add(double value) {
    const double step = std::log(value) - level_;
    if (std::abs(step) <= kUsual) {
      level_ += kShare * step;
      outlier_ = 0;
    } else if (outlier_ * step > 0) {
      level_ += (outlier_ + step) / 2;
      outlier_ = 0;
    } else {
      const double moved = kShare * std::clamp(step, -kUsual, kUsual);
      level_ += moved;
      outlier_ = step - moved;
    }
  }
  double value() const { return std::exp(level_); }

 private:
  static constexpr double kUsual = 0.3;  // a logarithm: about a third
  static constexpr double kShare = 0.25;
  double level_;
  double outlier_ = 0;  // how far the last value is from the level, if it was one
};

// Latency and bandwidth of a link by regression of times on sizes, the older the less. If all sizes are
// equal, the latency stays the same and the bandwidth explains the rest. A single odd value is clipped; after
// a second one in a row on the same side the link counts as changed.
class LinkEstimate {
 public:
  explicit LinkEstimate(const Link& start) : link_(start) {}
  void add(double bytes, double ms);
  // A transfer that shared the link with others. The link carries at least that much. After two of these in a
  // row, a large change in them counts as a change of the link.
  void add_shared(double bytes, double ms);
  const Link& link() const { return link_; }
  // A time of the link was measured without other transfers. settled(): often enough that one odd value does
  // not matter.
  bool seen() const { return seen_; }
  bool settled() const { return count_ > kSettled; }
  // Scales the estimate, as if the link were this many times faster.
  void scale(double factor) { link_.bytes_per_ms *= factor; }

 private:
  Link link_;
  bool seen_ = false;
  void explain(double bytes, double ms);
  void forget() { count_ = bytes_ = ms_ = bytes_bytes_ = bytes_ms_ = 0; }

  static constexpr int kAlone = 2;        // shared transfers count from this many in a row
  static constexpr double kUneven = 0.3;  // a logarithm: how much the transfers of others vary
  static constexpr double kSettled = 2.5;

  std::optional<ClippedMean> shared_;  // bytes in a millisecond
  double counted_ = 0;                 // the value of shared_ that link_ already takes into account
  int in_a_row_ = 0;                   // shared transfers
  double outlier_ = 0;  // the logarithm of the last value over what was expected, if it was one
  double count_ = 0, bytes_ = 0, ms_ = 0, bytes_bytes_ = 0, bytes_ms_ = 0;
};

// How long the states of a device last, in batches.
class HoldTime {
 public:
  explicit HoldTime(double expected) : hold_(expected) {}
  void changed(std::int64_t batch) {
    const auto lasted = static_cast<double>(std::max<std::int64_t>(1, batch - since_));
    hold_ = changes_++ == 0 ? lasted : (hold_ + lasted) / 2;
    since_ = batch;
  }
  // A state that has lasted long is expected to last long.
  double expected(std::int64_t batch) const { return std::max(hold_, static_cast<double>(batch - since_)); }
  std::int64_t since() const { return since_; }
  std::int64_t changes() const { return changes_; }

 private:
  double hold_;
  std::int64_t since_ = 0;
  std::int64_t changes_ = 0;
};

}  // namespace paceline::planner
