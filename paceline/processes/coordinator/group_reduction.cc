#include "paceline/processes/coordinator/group_reduction.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace paceline::coordinator {

bool order_reduction(const control::CommitRecord& record, ReplicaTable& replicas, Outbox& out) {
  std::vector<Worker*> members;
  wire::WorkerOrder order;
  wire::Reduce& reduce = *order.mutable_reduce();
  reduce.set_version(record.version.value());
  for (const control::CommitMember& member : record.members) {
    const LiveReplica* replica = replicas.find(member.replica);
    if (replica == nullptr) return false;
    members.push_back(replica->workers.front());
    wire::Reduce::Member* added = reduce.add_members();
    added->set_replica(member.replica.value());
    added->set_clock(member.clock.value());
    added->set_weight(member.weight);
    added->set_gradient_path(members.back()->attached->gradient_path());
  }
  if (members.size() < 2) return false;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    reduce.set_rank(static_cast<std::int32_t>(rank));
    reduce.clear_left();
    for (const ReplicaId replica : std::exchange(members[rank]->left, {})) reduce.add_left(replica.value());
    out.send(members[rank]->peer, order);
  }
  return true;
}

}  // namespace paceline::coordinator
