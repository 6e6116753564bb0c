#include "paceline/decisions/policy/testing/groups_oracle.h"

#include <algorithm>
#include <utility>

namespace paceline::policy::testing {

GroupsOracle::GroupsOracle(std::vector<std::int64_t> sizes, Inner inner)
    : sizes_(std::move(sizes)), inner_(std::move(inner)), states_(sizes_.size(), State::kAway) {}

std::int64_t GroupsOracle::clock(int id) const {
  return std::find_if(live_.begin(), live_.end(), [&](const Replica& replica) { return replica.id == id; })
      ->clock;
}

std::vector<GroupsOracle::Replica*> GroupsOracle::of(int group) {
  std::vector<Replica*> members;
  for (Replica& replica : live_) {
    if (replica.group == group) members.push_back(&replica);
  }
  std::sort(members.begin(), members.end(), [](const Replica* a, const Replica* b) { return a->id < b->id; });
  return members;
}

bool GroupsOracle::any(int group, bool Replica::*what) {
  const auto members = of(group);
  return std::any_of(members.begin(), members.end(), [&](const Replica* member) { return member->*what; });
}

Answer GroupsOracle::take(const Fact& fact) {
  Answer answer;
  if (fact.what == Fact::What::kJoin) join(fact, answer);
  if (fact.what == Fact::What::kLeave) leave(fact, answer);
  if (fact.what == Fact::What::kReady) {
    for (Replica& replica : live_) {
      if (replica.id != fact.replica) continue;
      ++replica.clock;
      replica.computing = false;
      replica.finished = true;
      replica.base = fact.base;
      replica.compute = fact.compute;
      hand_in_if_all_are_ready(replica.group, fact.now, answer);
      break;
    }
  }
  std::sort(answer.releases.begin(), answer.releases.end());
  return answer;
}

void GroupsOracle::join(const Fact& fact, Answer& answer) {
  Replica replica{.id = fact.replica, .clock = live_.empty() ? 0 : live_[0].clock};
  for (const Replica& other : live_) replica.clock = std::min(replica.clock, other.clock);
  const int last = static_cast<int>(sizes_.size()) - 1;
  while (replica.group < last && static_cast<std::int64_t>(of(replica.group).size()) >=
                                     sizes_[static_cast<std::size_t>(replica.group)])
    ++replica.group;
  const State state = states_[static_cast<std::size_t>(replica.group)];
  replica.computing = state == State::kComputes;
  if (replica.computing) answer.releases.push_back(replica.id);
  live_.push_back(replica);
  if (state == State::kAway) ask(Fact::What::kJoin, replica.group, fact.now, {}, 0, answer);
}

void GroupsOracle::leave(const Fact& fact, Answer& answer) {
  const auto found = std::find_if(live_.begin(), live_.end(),
                                  [&](const Replica& replica) { return replica.id == fact.replica; });
  const Replica gone = *found;
  live_.erase(found);
  if (gone.finished) answer.discards.push_back(gone.id);
  const bool nothing_to_hand_in = states_[static_cast<std::size_t>(gone.group)] == State::kHandedIn &&
                                  !any(gone.group, &Replica::finished);
  if (of(gone.group).empty() || nothing_to_hand_in)
    ask(Fact::What::kLeave, gone.group, fact.now, {}, 0, answer);
  if (of(gone.group).empty()) return;
  if (nothing_to_hand_in) ask(Fact::What::kJoin, gone.group, fact.now, {}, 0, answer);
  hand_in_if_all_are_ready(gone.group, fact.now, answer);
}

void GroupsOracle::hand_in_if_all_are_ready(int group, Time now, Answer& answer) {
  if (states_[static_cast<std::size_t>(group)] != State::kComputes || any(group, &Replica::computing)) return;
  Duration longest{0};
  std::int64_t oldest = of(group)[0]->base;
  for (const Replica* member : of(group)) {
    longest = std::max(longest, member->compute);
    oldest = std::min(oldest, member->base);
  }
  ask(Fact::What::kReady, group, now, longest, oldest, answer);
}

void GroupsOracle::ask(Fact::What what, int group, Time now, Duration compute, std::int64_t base,
                       Answer& answer) {
  State& mine = states_[static_cast<std::size_t>(group)];
  if (what == Fact::What::kLeave) mine = State::kAway;
  if (what == Fact::What::kJoin) mine = State::kWaits;
  if (what == Fact::What::kReady) mine = State::kHandedIn;
  const Answer inner = inner_({what, group, now, compute, base});
  const auto take_in = [&](int of_group, std::vector<int>& ids) {
    for (Replica* member : of(of_group)) {
      if (std::exchange(member->finished, false)) ids.push_back(member->id);
    }
    State& state = states_[static_cast<std::size_t>(of_group)];
    if (state == State::kHandedIn) state = State::kWaits;
  };
  for (const std::vector<int>& groups : inner.commits) {
    std::vector<int>& ids = answer.commits.emplace_back();
    for (const int one : groups) take_in(one, ids);
    std::sort(ids.begin(), ids.end());
  }
  for (const int one : inner.discards) take_in(one, answer.discards);
  for (const int one : inner.releases) {
    states_[static_cast<std::size_t>(one)] = State::kComputes;
    for (Replica* member : of(one)) {
      member->computing = true;
      answer.releases.push_back(member->id);
    }
  }
}

}  // namespace paceline::policy::testing
