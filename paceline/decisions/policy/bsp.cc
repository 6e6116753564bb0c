#include "paceline/decisions/policy/bsp.h"

#include <algorithm>

#include "paceline/base/status_macros.h"

namespace paceline::policy {

void Bsp::joined(Time, const Joined& fact, Orders& orders) {
  clocks_.join(fact.replica, fact.clock);
  orders.release(fact.replica, {"joined: takes part in the round under way"});
}

void Bsp::left(Time, const Left& fact, Orders& orders) {
  const auto mine = std::find_if(finished_.begin(), finished_.end(),
                                 [&](const Contribution& c) { return c.replica == fact.replica; });
  if (mine != finished_.end()) {
    orders.discard(*mine, {"left before the round was complete"});
    finished_.erase(mine);
  }
  clocks_.leave(fact.replica);
  commit_if_complete(orders);
}

void Bsp::ready(Time, const Ready& fact, Orders& orders) {
  clocks_.finish(fact.replica, fact.clock);
  finished_.push_back({fact.replica, fact.clock});
  commit_if_complete(orders);
}

void Bsp::commit_if_complete(Orders& orders) {
  if (finished_.empty() || finished_.size() < clocks_.size()) return;
  std::sort(finished_.begin(), finished_.end());
  const auto count = static_cast<std::int64_t>(finished_.size());
  orders.commit({finished_.begin(), finished_.end()}, {"all {} live replicas are ready", count});
  for (const Contribution& member : finished_) orders.release(member.replica, {"the round is committed"});
  finished_.clear();
}

// ---- As it is written ----

absl::StatusOr<BspSpec> BspSpec::parse(const PolicyText& text) {
  PACELINE_RETURN_IF_ERROR(text.only_a_name());
  return BspSpec{};
}
std::vector<std::string> BspSpec::examples() { return {"bsp"}; }
std::string BspSpec::text() const { return kName; }
std::unique_ptr<SyncPolicy> BspSpec::make() const { return std::make_unique<Bsp>(); }

}  // namespace paceline::policy
