#include "paceline/decisions/policy/clock_board.h"

#include "paceline/base/check.h"

namespace paceline::policy {

void ClockBoard::join(ReplicaId replica, Clock clock) {
  PACELINE_CHECK(!live(replica), "replica {} joined twice", replica);
  set(replica, clock);
  ++size_;
}

void ClockBoard::leave(ReplicaId replica) {
  PACELINE_CHECK(live(replica), "replica {} is not live", replica);
  clocks_.set(replica, LeastClock::kNone);
  negated_.set(replica, LeastClock::kNone);
  --size_;
}

void ClockBoard::finish(ReplicaId replica, Clock finished) {
  const Clock before = clock(replica);
  PACELINE_CHECK(finished == before.next(), "replica {} went from clock {} to {}", replica, before, finished);
  set(replica, finished);
}

Clock ClockBoard::clock(ReplicaId replica) const {
  PACELINE_CHECK(live(replica), "replica {} is not live", replica);
  return clocks_.of(replica);
}

void ClockBoard::set(ReplicaId replica, Clock clock) {
  clocks_.set(replica, clock);
  negated_.set(replica, Clock(-clock.value()));
}

void HeldReplicas::drop(Clock clock, ReplicaId replica) {
  if (held_.of(replica) == clock) held_.set(replica, LeastClock::kNone);
}

bool HeldReplicas::take_within(Clock limit, ReplicaId* replica) {
  if (held_.least() > limit) return false;
  *replica = held_.whose();
  held_.set(*replica, LeastClock::kNone);
  return true;
}

}  // namespace paceline::policy
