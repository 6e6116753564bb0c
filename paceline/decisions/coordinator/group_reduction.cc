#include "paceline/decisions/coordinator/group_reduction.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace paceline::coordinator {

bool order_reduction(const control::CommitRecord& record, ReplicaTable& replicas, Outbox& out) {
  std::vector<Worker*> members;
  Reduce reduce{.version = record.version};
  for (const control::CommitMember& member : record.members) {
    const LiveReplica* replica = replicas.find(member.replica);
    if (replica == nullptr) return false;
    members.push_back(replica->workers.front());
    reduce.members.push_back(
        {member.replica, member.clock, member.weight, members.back()->attached->gradient_path});
  }
  if (members.size() < 2) return false;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    reduce.rank = static_cast<std::int32_t>(rank);
    reduce.left = std::exchange(members[rank]->left, {});
    out.send(members[rank]->peer, reduce);
  }
  return true;
}

}  // namespace paceline::coordinator
