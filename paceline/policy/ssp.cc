#include "paceline/policy/ssp.h"

namespace paceline::policy {

void Ssp::joined(Time, const Joined& fact, Orders& orders) {
  clocks_.join(fact.replica, fact.clock);
  orders.release(fact.replica, {"joined at the slowest clock"});
}

void Ssp::left(Time, const Left& fact, Orders& orders) {
  held_.drop(clocks_.clock(fact.replica), fact.replica);
  clocks_.leave(fact.replica);
  release_within_s(orders);
}

void Ssp::ready(Time, const Ready& fact, Orders& orders) {
  clocks_.finish(fact.replica, fact.clock);
  orders.commit({{fact.replica, fact.clock}}, {"every gradient commits alone"});
  held_.hold(fact.clock, fact.replica);
  release_within_s(orders);
}

void Ssp::release_within_s(Orders& orders) {
  if (clocks_.empty()) return;
  const Clock slowest = clocks_.slowest();
  ReplicaId replica;
  while (held_.take_within(Clock(slowest.value() + s_), &replica)) {
    orders.release(replica, {"{} ahead of the slowest, {} allowed", clocks_.clock(replica) - slowest, s_});
  }
}

}  // namespace paceline::policy
