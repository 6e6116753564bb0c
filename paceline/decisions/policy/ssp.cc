#include "paceline/decisions/policy/ssp.h"

#include <fmt/format.h>

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

// ---- As it is written ----

absl::StatusOr<SspSpec> SspSpec::parse(const PolicyText& text) {
  const auto s = text.parts.size() == 2 ? iterations(text.parts[1]) : std::nullopt;
  if (!s) return text.wrong("write ssp:S with S from 0 to 1000000, for example ssp:3");
  return SspSpec{*s};
}
std::vector<std::string> SspSpec::examples() { return {"ssp:0", "ssp:1", "ssp:2"}; }
std::string SspSpec::text() const { return fmt::format("{}:{}", kName, s); }
std::unique_ptr<SyncPolicy> SspSpec::make() const { return std::make_unique<Ssp>(s); }

}  // namespace paceline::policy
