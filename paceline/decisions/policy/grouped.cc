#include "paceline/decisions/policy/grouped.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/overloaded.h"

namespace paceline::policy {

Grouped::Grouped(const std::vector<std::int64_t>& sizes, std::unique_ptr<SyncPolicy> inner)
    : inner_(std::move(inner)) {
  PACELINE_CHECK(!sizes.empty(), "no groups");
  for (const std::int64_t size : sizes) groups_.push_back({.places = size});
}

// ---- Facts ----

void Grouped::joined(Time now, const Joined& fact, Orders& orders) {
  const ReplicaId number = first_vacancy();
  group_of_[fact.replica] = number;
  Group& mine = group(number);
  Member& member = mine.members[fact.replica];
  member.latest.clock = fact.clock;
  if (mine.members.size() == 1) {
    mine.clock = fact.clock;
    enter(now, number, orders);
  } else if (mine.computing) {
    start(mine, fact.replica, member, {"joined: takes part in its group's iteration under way"}, orders);
  }
}

void Grouped::left(Time now, const Left& fact, Orders& orders) {
  const ReplicaId number = group_of_.extract(fact.replica).mapped();
  Group& mine = group(number);
  const Member gone = mine.members.extract(fact.replica).mapped();
  if (gone.doing == Doing::kFinished)
    orders.discard({fact.replica, gone.latest.clock}, {"left before its group's gradient was committed"});
  if (gone.doing == Doing::kComputing) --mine.on_the_way;
  if (mine.members.empty()) return leave(now, number, orders);
  if (!mine.uncommitted) return ready_if_complete(now, number, orders);
  if (any_finished(mine)) return;
  leave(now, number, orders);
  enter(now, number, orders);
}

void Grouped::ready(Time now, const Ready& fact, Orders& orders) {
  const ReplicaId number = group_of_.at(fact.replica);
  Group& mine = group(number);
  mine.members.at(fact.replica) = {Doing::kFinished, fact};
  --mine.on_the_way;
  ready_if_complete(now, number, orders);
}

void Grouped::timer(Time now, Orders& orders) {
  Orders told(orders.latest());
  inner_->timer(now, told);
  carry_out(told, orders);
}

void Grouped::completed(Time now, const Completed& fact, Orders& orders) {
  Orders told(orders.latest());
  inner_->completed(now, fact, told);
  carry_out(told, orders);
}

// ---- Groups ----

ReplicaId Grouped::first_vacancy() const {
  std::size_t i = 0;
  while (i + 1 < groups_.size() && std::cmp_equal(groups_[i].members.size(), groups_[i].places)) ++i;
  return ReplicaId(static_cast<ReplicaId::rep>(i));
}

bool Grouped::any_finished(const Group& group) {
  return std::any_of(group.members.begin(), group.members.end(),
                     [](const auto& one) { return one.second.doing == Doing::kFinished; });
}

void Grouped::start(Group& group, ReplicaId replica, Member& member, Reason why, Orders& orders) {
  member.doing = Doing::kComputing;
  ++group.on_the_way;
  orders.release(replica, why);
}

void Grouped::enter(Time now, ReplicaId number, Orders& orders) {
  Group& mine = group(number);
  const Group* slowest = nullptr;
  for (const Group& other : groups_) {
    if (&other == &mine || other.members.empty()) continue;
    if (slowest == nullptr || other.clock < slowest->clock) slowest = &other;
  }
  if (slowest != nullptr) mine.clock = slowest->clock;
  Orders told(orders.latest());
  inner_->joined(now, {number, mine.clock}, told);
  carry_out(told, orders);
}

void Grouped::leave(Time now, ReplicaId number, Orders& orders) {
  Group& mine = group(number);
  mine.computing = mine.uncommitted = false;
  Orders told(orders.latest());
  inner_->left(now, {number}, told);
  carry_out(told, orders);
}

void Grouped::ready_if_complete(Time now, ReplicaId number, Orders& orders) {
  Group& mine = group(number);
  if (!mine.computing || mine.on_the_way > 0) return;
  mine.computing = false;
  mine.uncommitted = true;
  mine.clock = mine.clock.next();
  const Ready& first = mine.members.begin()->second.latest;
  Ready together{number, mine.clock, first.base, 0, first.compute};
  for (const auto& [replica, member] : mine.members) {
    together.base = std::min(together.base, member.latest.base);
    together.samples += member.latest.samples;
    together.compute = std::max(together.compute, member.latest.compute);
  }
  Orders told(orders.latest());
  inner_->ready(now, together, told);
  carry_out(told, orders);
}

// ---- Orders ----

void Grouped::carry_out(const Orders& of_groups, Orders& orders) {
  for (const Order& order : of_groups.list()) {
    std::visit(Overloaded{
                   [&](const Commit& one) { commit(one, orders); },
                   [&](const Release& one) { release(one, orders); },
                   [&](const Discard& one) { discard(one, orders); },
                   [&](const WakeAt& one) { orders.wake_at(one.at); },
               },
               order);
  }
}

void Grouped::commit(const Commit& of_groups, Orders& orders) {
  absl::InlinedVector<Contribution, 1> members;
  for (const Contribution& one : of_groups.members) {
    Group& committed = group(one.replica);
    committed.uncommitted = false;
    for (auto& [replica, member] : committed.members) {
      if (member.doing != Doing::kFinished) continue;
      member.doing = Doing::kWaiting;
      members.push_back({replica, member.latest.clock});
    }
  }
  std::sort(members.begin(), members.end());
  orders.commit(std::move(members), of_groups.why);
}

void Grouped::release(const Release& of_group, Orders& orders) {
  Group& released = group(of_group.replica);
  released.computing = true;
  for (auto& [replica, member] : released.members) start(released, replica, member, of_group.why, orders);
}

// Discards the gradients of the group's members that are still there.
void Grouped::discard(const Discard& of_group, Orders& orders) {
  Group& discarded = group(of_group.contribution.replica);
  discarded.uncommitted = false;
  for (auto& [replica, member] : discarded.members) {
    if (member.doing != Doing::kFinished) continue;
    member.doing = Doing::kWaiting;
    orders.discard({replica, member.latest.clock}, of_group.why);
  }
}

}  // namespace paceline::policy
