#include "examples/extending/pairs.h"

#include <algorithm>
#include <utility>

#include "paceline/base/status_macros.h"

namespace example {

void Pairs::joined(Time, const policy::Joined& fact, policy::Orders& orders) {
  computing_.insert(fact.replica);
  orders.release(fact.replica, {"joined"});
}

// If no other replica can become ready, the one that waits goes alone.
void Pairs::left(Time, const policy::Left& fact, policy::Orders& orders) {
  computing_.erase(fact.replica);
  if (waiting_ && waiting_->replica == fact.replica) {
    orders.discard(*waiting_, {"left before another one was ready"});
    waiting_.reset();
  }
  if (computing_.empty()) go_alone(orders);
}

void Pairs::ready(Time, const policy::Ready& fact, policy::Orders& orders) {
  computing_.erase(fact.replica);
  const policy::Contribution mine{fact.replica, fact.clock};
  if (!waiting_) {
    waiting_ = mine;
    if (computing_.empty()) go_alone(orders);
    return;
  }
  const policy::Contribution other = *std::exchange(waiting_, std::nullopt);
  orders.commit({std::min(mine, other), std::max(mine, other)}, {"two are ready"});
  for (const paceline::ReplicaId replica : {other.replica, mine.replica}) {
    computing_.insert(replica);
    orders.release(replica, {"its pair is committed"});
  }
}

void Pairs::go_alone(policy::Orders& orders) {
  if (!waiting_) return;
  const policy::Contribution alone = *std::exchange(waiting_, std::nullopt);
  orders.commit({alone}, {"nobody else computes"});
  computing_.insert(alone.replica);
  orders.release(alone.replica, {"nobody else computes"});
}

absl::StatusOr<PairsSpec> PairsSpec::parse(const policy::PolicyText& text) {
  PACELINE_RETURN_IF_ERROR(text.only_a_name());
  return PairsSpec{};
}
std::vector<std::string> PairsSpec::examples() { return {"pairs"}; }
std::string PairsSpec::text() const { return kName; }
std::unique_ptr<policy::SyncPolicy> PairsSpec::make() const { return std::make_unique<Pairs>(); }

}  // namespace example
