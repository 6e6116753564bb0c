// Static groups a second time, deliberately dumber: one flat list of replicas, looked at from end to end for
// every question. The policy between the groups is whatever it is given, asked with groups for replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "paceline/decisions/policy/testing/oracle_fact.h"

namespace paceline::policy::testing {

class GroupsOracle {
 public:
  using Inner = std::function<Answer(const Fact&)>;
  GroupsOracle(std::vector<std::int64_t> sizes, Inner inner);

  Answer take(const Fact& fact);
  std::int64_t clock(int id) const;

 private:
  struct Replica {
    int id = 0;
    int group = 0;
    std::int64_t clock = 0;
    bool computing = false;
    bool finished = false;  // its gradient is not committed or discarded
    std::int64_t base = 0;
    Duration compute{0};
  };
  // The inner policy's view of a group.
  enum class State { kAway, kWaits, kComputes, kHandedIn };

  std::vector<Replica*> of(int group);
  bool any(int group, bool Replica::*what);
  void join(const Fact& fact, Answer& answer);
  void leave(const Fact& fact, Answer& answer);
  void hand_in_if_all_are_ready(int group, Time now, Answer& answer);
  void ask(Fact::What what, int group, Time now, Duration compute, std::int64_t base, Answer& answer);

  const std::vector<std::int64_t> sizes_;
  const Inner inner_;
  std::vector<Replica> live_;
  std::vector<State> states_;
};

}  // namespace paceline::policy::testing
