#include "paceline/decisions/policy/asp.h"

#include "paceline/base/status_macros.h"

namespace paceline::policy {

void Asp::joined(Time, const Joined& fact, Orders& orders) {
  orders.release(fact.replica, {"joined: nobody waits"});
}

void Asp::ready(Time, const Ready& fact, Orders& orders) {
  orders.commit({{fact.replica, fact.clock}}, {"every gradient commits alone"});
  orders.release(fact.replica, {"nobody waits"});
}

// ---- As it is written ----

absl::StatusOr<AspSpec> AspSpec::parse(const PolicyText& text) {
  PACELINE_RETURN_IF_ERROR(text.only_a_name());
  return AspSpec{};
}
std::vector<std::string> AspSpec::examples() { return {"asp"}; }
std::string AspSpec::text() const { return kName; }
std::unique_ptr<SyncPolicy> AspSpec::make() const { return std::make_unique<Asp>(); }

}  // namespace paceline::policy
