#include "paceline/decisions/policy/least_clock.h"

#include <algorithm>
#include <utility>

namespace paceline::policy {

void LeastClock::set(ReplicaId replica, Clock clock) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= size_) grow(index);
  std::size_t node = size_ + index;
  winners_[node] = clock;
  while (node > 1) {
    const Clock winner = std::min(winners_[node], winners_[node ^ 1]);
    node /= 2;
    if (winners_[node] == winner) return;
    winners_[node] = winner;
  }
}

ReplicaId LeastClock::whose() const {
  std::size_t node = 1;
  while (node < size_) node = 2 * node + (winners_[2 * node] == winners_[node] ? 0 : 1);
  return ReplicaId(static_cast<ReplicaId::rep>(node - size_));
}

void LeastClock::grow(std::size_t index) {
  const std::size_t before = size_;
  while (size_ <= index) size_ *= 2;
  const std::vector<Clock> old = std::exchange(winners_, std::vector<Clock>(2 * size_, kNone));
  std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(before), before,
              winners_.begin() + static_cast<std::ptrdiff_t>(size_));
  for (std::size_t node = size_ - 1; node > 0; --node) {
    winners_[node] = std::min(winners_[2 * node], winners_[2 * node + 1]);
  }
}

}  // namespace paceline::policy
