#include "paceline/policy/clock_board.h"

#include "paceline/base/check.h"

namespace paceline::policy {

void ClockBoard::join(ReplicaId replica, Clock clock) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= clocks_.size()) clocks_.resize(index + 1, kAbsent);
  PACELINE_CHECK(clocks_[index] == kAbsent, "replica {} joined twice", replica);
  clocks_[index] = clock;
  by_clock_.emplace(clock, replica);
}

void ClockBoard::leave(ReplicaId replica) {
  by_clock_.erase({clock(replica), replica});
  clocks_[static_cast<std::size_t>(replica.value())] = kAbsent;
}

void ClockBoard::finish(ReplicaId replica, Clock finished) {
  const Clock before = clock(replica);
  PACELINE_CHECK(finished == before.next(), "replica {} went from clock {} to {}", replica, before, finished);
  auto node = by_clock_.extract({before, replica});
  node.value().first = finished;
  by_clock_.insert(std::move(node));
  clocks_[static_cast<std::size_t>(replica.value())] = finished;
}

bool ClockBoard::live(ReplicaId replica) const {
  const auto index = static_cast<std::size_t>(replica.value());
  return index < clocks_.size() && clocks_[index] != kAbsent;
}

Clock ClockBoard::clock(ReplicaId replica) const {
  PACELINE_CHECK(live(replica), "replica {} is not live", replica);
  return clocks_[static_cast<std::size_t>(replica.value())];
}

bool HeldReplicas::take_within(Clock limit, ReplicaId* replica) {
  if (held_.empty() || held_.begin()->first > limit) return false;
  *replica = held_.begin()->second;
  held_.erase(held_.begin());
  return true;
}

}  // namespace paceline::policy
