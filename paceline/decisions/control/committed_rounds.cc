#include "paceline/decisions/control/committed_rounds.h"

#include "paceline/base/check.h"

namespace paceline::control {

std::size_t CommittedRounds::index(Version version) const {
  const auto at = static_cast<std::size_t>(version - oldest_);
  PACELINE_CHECK(version >= oldest_ && at < until_.size(), "version {} of {} from {} on", version,
                 until_.size(), oldest_);
  return at;
}

double CommittedRounds::since(Version base) const { return until_.back() - until_[index(base)]; }

void CommittedRounds::forget_before(Version oldest) {
  until_.erase(until_.begin(), until_.begin() + static_cast<std::ptrdiff_t>(index(oldest)));
  oldest_ = oldest;
  kept_ = until_.size();
}

}  // namespace paceline::control
