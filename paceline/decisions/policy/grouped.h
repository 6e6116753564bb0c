// Static groups under any policy: synchronous inside a group, whatever the inner policy says between groups.
// Over SSP that is GSSP, over ASP it is CGP with given groups [ours]. The inner policy sees each
// group as one replica:
//
//  Joined when its first member is there, Left when its last one is gone.
//
//  Ready when all its live members are ready: computed for as long as the slowest of them, on the oldest of
//    their versions, with the samples of all.
//
//  When the inner policy commits, releases or discards groups, this applies to all their members; a commit of
//    several groups is one commit. The reasons are the inner policy's: its replicas are groups.
//
// Replicas take places in the order in which they join, each in the first group with a vacancy. So a replica
// that comes back after a crash takes the free place. When all places are taken, the last group takes the
// rest.
//
// A replica that joins a computing group is released at once and takes part. A replica that joins a waiting
// group is released with it. If all members that made a gradient leave while it waits to be committed, the
// members that waited with them have no gradient to commit. The inner policy then hears that the group left
// and joined again.
//
// Clocks. Members' clocks may differ after a join, and only name contributions. For the inner policy a group
// has its own clock. It starts level with the slowest group, or at its first member's clock if it is the only
// group, and counts the group's iterations. So no group waits for a joiner's past.
//
// The policy promises the inner policy's version staleness, because no member's gradient is staler than its
// group's. It promises no gap: a replica that joins a group ahead of the slowest replica stays behind its
// group by that much, and the next one to join starts where that one is. And it promises no quota: a group
// that joined after the plan is not bound by it, and its members may have been there when all replicas had
// been ready twice.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy {

class Grouped final : public SyncPolicy {
 public:
  // Requires: at least one size, and none below 1.
  Grouped(const std::vector<std::int64_t>& sizes, std::unique_ptr<SyncPolicy> inner);

  // Coming and going costs O(groups + members of the group) at most, the rest O(log P) for each order.
  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time now, const Left& fact, Orders& orders) override;
  void ready(Time now, const Ready& fact, Orders& orders) override;
  void timer(Time now, Orders& orders) override;
  void completed(Time now, const Completed& fact, Orders& orders) override;

  bool hears_of_completion() const override { return inner_->hears_of_completion(); }
  Reduction reduction() const override { return Reduction::kInGroup; }
  bool commits_whole_rounds() const override { return inner_->commits_whole_rounds(); }
  Bounds bounds() const override { return {.version_staleness = inner_->bounds().version_staleness}; }

 private:
  enum class Doing { kWaiting, kComputing, kFinished };  // finished: not committed or discarded yet
  struct Member {
    Doing doing = Doing::kWaiting;
    Ready latest{};  // its clock is always right; the rest once the replica has been ready
  };
  struct Group {
    std::int64_t places = 0;
    std::map<ReplicaId, Member> members{};  // live replicas only
    Clock clock{};
    bool computing = false;       // released, and not all were ready since
    std::int64_t on_the_way = 0;  // members that compute
    bool uncommitted = false;     // the inner policy has a gradient of the group
  };

  Group& group(ReplicaId number) { return groups_[static_cast<std::size_t>(number.value())]; }
  ReplicaId first_vacancy() const;
  static bool any_finished(const Group& group);
  static void start(Group& group, ReplicaId replica, Member& member, Reason why, Orders& orders);

  // The facts for the inner policy.
  void enter(Time now, ReplicaId number, Orders& orders);
  void leave(Time now, ReplicaId number, Orders& orders);
  void ready_if_complete(Time now, ReplicaId number, Orders& orders);

  // The inner policy's orders.
  void carry_out(const Orders& of_groups, Orders& orders);
  void commit(const Commit& of_groups, Orders& orders);
  void release(const Release& of_group, Orders& orders);
  void discard(const Discard& of_group, Orders& orders);

  const std::unique_ptr<SyncPolicy> inner_;
  std::vector<Group> groups_;
  std::map<ReplicaId, ReplicaId> group_of_;  // live replicas only
};

}  // namespace paceline::policy
