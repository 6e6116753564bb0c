#include "paceline/report/update_times.h"

#include <algorithm>

namespace paceline::report {

void UpdateTimes::ordered(Version version, std::size_t members, Time now) {
  // Where nobody says what is complete, all stay under way.
  if (under_way_.size() == kMostUnderWay) under_way_.pop_front();
  under_way_.push_back({version, members, now});
}

void UpdateTimes::completed(Version version, Time now) {
  while (!under_way_.empty() && under_way_.front().version < version) under_way_.pop_front();
  if (under_way_.empty() || under_way_.front().version != version) return;
  const UnderWay commit = under_way_.front();
  under_way_.pop_front();
  const double ms = 1000 * to_seconds(now - std::max(commit.ordered, latest_completion_));
  const double more = static_cast<double>(commit.members) - 1;
  latest_completion_ = now;
  ++count_;
  x_ += more;
  y_ += ms;
  xx_ += more * more;
  xy_ += more * ms;
}

std::optional<MeasuredUpdates> UpdateTimes::measured() const {
  if (count_ == 0) return std::nullopt;
  const auto n = static_cast<double>(count_);
  MeasuredUpdates measured{.count = count_, .mean_ms = y_ / n, .update_ms = y_ / n};
  const double spread = n * xx_ - x_ * x_;
  if (spread <= 0) return measured;
  measured.gradient_ms = (n * xy_ - x_ * y_) / spread;
  measured.update_ms = (y_ - *measured.gradient_ms * x_) / n;
  return measured;
}

}  // namespace paceline::report
