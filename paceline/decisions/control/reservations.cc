#include "paceline/decisions/control/reservations.h"

#include "paceline/base/check.h"

namespace paceline::control {

void Reservations::add(ReplicaId replica, const One& one) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= replicas_.size()) replicas_.resize(index + 1);
  Replica& mine = replicas_[index];
  mine.list.push_back(one);
  samples_ += one.lease.size();
  if (mine.list.size() > mine.in_heap) put(replica, mine);
}

Reservations::One Reservations::take_oldest(ReplicaId replica) {
  PACELINE_CHECK(!of(replica).empty(), "nothing is reserved for replica {}", replica);
  std::vector<One>& list = replicas_[static_cast<std::size_t>(replica.value())].list;
  const One one = list.front();
  list.erase(list.begin());
  samples_ -= one.lease.size();
  return one;
}

Reservations::One Reservations::take_newest(ReplicaId replica) {
  PACELINE_CHECK(!of(replica).empty(), "nothing is reserved for replica {}", replica);
  std::vector<One>& list = replicas_[static_cast<std::size_t>(replica.value())].list;
  const One one = list.back();
  list.pop_back();
  samples_ -= one.lease.size();
  return one;
}

const std::vector<Reservations::One>& Reservations::of(ReplicaId replica) const {
  static const std::vector<One> kNone;
  const auto index = static_cast<std::size_t>(replica.value());
  return index < replicas_.size() ? replicas_[index].list : kNone;
}

std::vector<ReplicaId> Reservations::who_has_any() const {
  std::vector<ReplicaId> all;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i].list.empty()) all.emplace_back(static_cast<std::int32_t>(i));
  }
  return all;
}

// An entry never says less than its replica has, so the first that says no more is the largest there is.
std::optional<ReplicaId> Reservations::who_has_most() {
  while (!heap_.empty()) {
    const auto [count, replica] = heap_.top();
    Replica& mine = replicas_[static_cast<std::size_t>(replica.value())];
    if (count == mine.in_heap && count == mine.list.size()) return replica;
    heap_.pop();
    if (count == mine.in_heap) put(replica, mine);
  }
  return std::nullopt;
}

void Reservations::put(ReplicaId replica, Replica& mine) {
  mine.in_heap = mine.list.size();
  if (mine.in_heap > 0) heap_.emplace(mine.in_heap, replica);
}

}  // namespace paceline::control
