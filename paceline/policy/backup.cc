#include "paceline/policy/backup.h"

#include <algorithm>

namespace paceline::policy {

void Backup::joined(Time, const Joined& fact, Orders& orders) {
  ++live_;
  orders.release(fact.replica, {"joined: takes part in the round under way"});
}

void Backup::left(Time, const Left& fact, Orders& orders) {
  const auto mine = std::find_if(finished_.begin(), finished_.end(),
                                 [&](const Contribution& c) { return c.replica == fact.replica; });
  if (mine != finished_.end()) {
    orders.discard(*mine, {"left before the round was complete"});
    finished_.erase(mine);
  }
  --live_;
  commit_if_enough(orders);
}

void Backup::ready(Time, const Ready& fact, Orders& orders) {
  if (fact.base < orders.latest()) {
    orders.discard({fact.replica, fact.clock}, {"late: its round is committed"});
    return orders.release(fact.replica, {"late: takes part in the round under way"});
  }
  finished_.push_back({fact.replica, fact.clock});
  commit_if_enough(orders);
}

void Backup::commit_if_enough(Orders& orders) {
  const auto count = static_cast<std::int64_t>(finished_.size());
  if (count < std::max<std::int64_t>(1, live_ - spare_)) return;
  std::sort(finished_.begin(), finished_.end());
  orders.commit({finished_.begin(), finished_.end()}, {"{} of {} live replicas are ready", count, live_});
  for (const Contribution& member : finished_) orders.release(member.replica, {"the round is committed"});
  finished_.clear();
}

}  // namespace paceline::policy
