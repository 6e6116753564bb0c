#include "paceline/decisions/control/superstep_ledger.h"

namespace paceline::control {

void SuperstepLedger::enter(ReplicaId replica) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= entries_.size()) entries_.resize(index + 1);
  entries_[index] = {.live = true, .superstep = superstep_, .bound = !all_twice_};
  ++live_;
}

void SuperstepLedger::leave(ReplicaId replica) {
  if (static_cast<std::size_t>(replica.value()) >= entries_.size()) return;
  Entry& mine = entry(replica);
  if (!mine.live) return;
  mine.live = false;
  --live_;
  if (mine.readies == 2) --twice_;
  look_whether_all_were_ready_twice();
}

std::int64_t SuperstepLedger::ready(ReplicaId replica) {
  Entry& mine = entry(replica);
  const bool counts = all_twice_ && mine.bound;
  if (mine.readies < 2 && ++mine.readies == 2) ++twice_;
  look_whether_all_were_ready_twice();
  return counts ? ++mine.finished : 0;
}

void SuperstepLedger::committed(std::size_t members) {
  if (members < live_) return;
  ++superstep_;
  twice_ = 0;
  all_twice_ = false;
}

SuperstepLedger::Entry& SuperstepLedger::entry(ReplicaId replica) {
  Entry& mine = entries_[static_cast<std::size_t>(replica.value())];
  if (mine.superstep != superstep_) mine = {.live = mine.live, .superstep = superstep_};
  return mine;
}

}  // namespace paceline::control
