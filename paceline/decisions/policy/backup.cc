#include "paceline/decisions/policy/backup.h"

#include <algorithm>

#include <fmt/format.h>

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

// ---- As it is written ----

absl::StatusOr<BackupSpec> BackupSpec::parse(const PolicyText& text) {
  const auto spare = text.parts.size() == 2 ? iterations(text.parts[1]) : std::nullopt;
  if (!spare) return text.wrong("write backup:C with C from 0 to 1000000, for example backup:1");
  return BackupSpec{*spare};
}
std::vector<std::string> BackupSpec::examples() { return {"backup:1"}; }
std::string BackupSpec::text() const { return fmt::format("{}:{}", kName, spare); }
std::unique_ptr<SyncPolicy> BackupSpec::make() const { return std::make_unique<Backup>(spare); }
absl::Status BackupSpec::check(const PolicyText& text, std::int64_t replicas) const {
  if (spare < replicas) return absl::OkStatus();
  return text.wrong(
      fmt::format("the job has {} replica{}, and a round needs at least one; write backup:{} or less",
                  replicas, replicas == 1 ? "" : "s", replicas - 1));
}

}  // namespace paceline::policy
