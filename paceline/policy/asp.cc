#include "paceline/policy/asp.h"

namespace paceline::policy {

void Asp::joined(Time, const Joined& fact, Orders& orders) {
  orders.release(fact.replica, {"joined: nobody waits"});
}

void Asp::ready(Time, const Ready& fact, Orders& orders) {
  orders.commit({{fact.replica, fact.clock}}, {"every gradient commits alone"});
  orders.release(fact.replica, {"nobody waits"});
}

}  // namespace paceline::policy
