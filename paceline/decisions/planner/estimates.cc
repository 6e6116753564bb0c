#include "paceline/decisions/planner/estimates.h"

namespace paceline::planner {

void LinkEstimate::add(double bytes, double ms) {
  constexpr double kKept = 0.95;  // weight that older values keep with each new one
  // one value counts as at most this many times the expected one, and at least as that part
  constexpr double kFarthest = 3;
  constexpr double kUsual = 0.4;   // a logarithm; a value farther off is an outlier
  constexpr double kAlike = 0.05;  // spread of sizes, as a share of their mean, below which no slope is seen
  seen_ = true;
  in_a_row_ = 0;
  if (shared_) counted_ = shared_->value();
  const double expected = link_.ms(bytes);
  if (expected > 0) {
    const double step = std::log(ms / expected);
    const bool changed = std::abs(step) > kUsual && outlier_ * step > 0;
    outlier_ = std::abs(step) > kUsual && !changed ? step : 0;
    if (changed) forget();
    if (!changed) ms = std::clamp(ms, expected / kFarthest, expected * kFarthest);
  }
  count_ = kKept * count_ + 1;
  bytes_ = kKept * bytes_ + bytes;
  ms_ = kKept * ms_ + ms;
  bytes_bytes_ = kKept * bytes_bytes_ + bytes * bytes;
  bytes_ms_ = kKept * bytes_ms_ + bytes * ms;
  const double mean_bytes = bytes_ / count_, mean_ms = ms_ / count_;
  const double spread = bytes_bytes_ / count_ - mean_bytes * mean_bytes;
  if (spread > kAlike * kAlike * mean_bytes * mean_bytes && mean_bytes > 0) {
    const double slope = (bytes_ms_ / count_ - mean_bytes * mean_ms) / spread;
    const double latency = mean_ms - slope * mean_bytes;
    if (slope > 0 && latency >= 0) {
      link_ = {latency, 1 / slope};
      return;
    }
  }
  if (mean_bytes > 0 && mean_ms > 0) explain(mean_bytes, mean_ms);
}

void LinkEstimate::add_shared(double bytes, double ms) {
  if (bytes <= 0 || ms <= 0) return;
  if (!shared_) {
    shared_.emplace(bytes / ms);
  } else {
    shared_->add(bytes / ms);
  }
  if (++in_a_row_ < kAlone) return;
  const double change = counted_ > 0 ? shared_->value() / counted_ : 1;
  if (counted_ > 0 && std::abs(std::log(change)) < kUneven) return;
  if (change != 1) forget();
  scale(change);
  counted_ = shared_->value();
  link_.bytes_per_ms = std::max(link_.bytes_per_ms, counted_);
}

// The latency stays what it was.
void LinkEstimate::explain(double bytes, double ms) {
  // Most of a time shorter than the latency is still latency.
  link_.latency_ms = std::min(link_.latency_ms, 0.9 * ms);
  link_.bytes_per_ms = bytes / (ms - link_.latency_ms);
}

}  // namespace paceline::planner
