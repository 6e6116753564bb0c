#include "paceline/decisions/supervisor/members.h"

#include <algorithm>

namespace paceline::supervisor {

Members::Members(const std::vector<std::pair<std::string, MemberKind>>& names,
                 std::vector<std::vector<std::string>> replicas)
    : replicas_(std::move(replicas)) {
  for (const auto& [name, kind] : names) members_.push_back({name, kind});
}

Member* Members::find(const std::string& name) {
  const auto found =
      std::find_if(members_.begin(), members_.end(), [&](const Member& one) { return one.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

bool Members::here(const std::string& name) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& one) { return one.here && one.name == name; });
}

bool Members::any_replica_whole() const {
  return std::any_of(replicas_.begin(), replicas_.end(), [&](const std::vector<std::string>& names) {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return here(name); });
  });
}

bool Members::all_ended() const {
  return std::none_of(members_.begin(), members_.end(), [](const Member& one) { return one.here; });
}

bool Members::all_taken() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& one) { return one.taken; });
}

bool Members::any_but_evaluator() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& one) { return one.here && one.kind != MemberKind::kEvaluator; });
}

}  // namespace paceline::supervisor
