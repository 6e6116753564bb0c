#include "paceline/decisions/coordinator/apply_order.h"

namespace paceline::coordinator {

Apply apply_order(const control::CommitRecord& record) {
  Apply apply{.version = record.version,
              .learning_rate = record.learning_rate,
              .fraction = record.fraction,
              .of_differences = record.of_differences};
  for (const control::CommitMember& member : record.members)
    apply.members.push_back({member.replica, member.clock, member.weight, member.share});
  return apply;
}

}  // namespace paceline::coordinator
