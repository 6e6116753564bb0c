#include "paceline/decisions/policy/sync_policy.h"

#include <utility>

#include "paceline/base/check.h"

namespace paceline::policy {

std::string to_string(const Reason& reason) {
  return fmt::format(fmt::runtime({reason.text.data(), reason.text.size()}), reason.a, reason.b);
}

void Orders::commit(absl::InlinedVector<Contribution, 1> members, Reason why) {
  PACELINE_CHECK(!members.empty(), "commit {} has no member", latest_.next());
  latest_ = latest_.next();
  list_.push_back(Commit{latest_, std::move(members), why});
}

}  // namespace paceline::policy
