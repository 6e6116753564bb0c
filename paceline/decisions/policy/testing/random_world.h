// A world that gives a policy random facts: replicas of uneven paces with hiccups join, leave and come back;
// commits complete one after the other, each some time after its order; timers ring when they were asked to,
// now and then a little late. The orders are carried out, so whatever the policy decides has its effect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/rng.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy::testing {

struct WorldFact {
  enum class What { kJoin, kLeave, kReady, kComplete, kRing } what;
  Time now;
  ReplicaId replica{};
  Clock clock{};                   // for a join and a ready
  Version version{};               // for a ready: the base; for a completion: the version
  Duration compute{0}, pulled{0};  // for a ready
};
std::string to_string(const WorldFact& fact);
// The orders that `policy` gives to the fact.
void tell(SyncPolicy& policy, const WorldFact& fact, Orders& orders);

class RandomWorld {
 public:
  // `even`: all times are whole seconds, so that there are many ties.
  RandomWorld(std::uint64_t seed, bool even);
  WorldFact next();
  void follow(const std::vector<Order>& orders);

 private:
  struct Running {
    ReplicaId id;
    Clock clock;
    Duration usual;
    bool computing = false;
    Version released_on{};
    Time released_at{}, pulled_at{}, due{};
  };
  WorldFact join();
  WorldFact leave();
  WorldFact ready(Running& one);
  void see(const Commit& commit);
  void see(const Release& release);
  Duration random_ms(std::uint64_t below);

  Rng rng_;
  const Duration grain_;
  const Duration span_;    // about the time from a commit's order to its completion
  const Duration global_;  // the part of span_ in which no other commit gets through
  const Duration back_;    // the time in which a commit's weights keep the way back busy
  Time now_{};
  std::vector<Running> live_;
  std::vector<ReplicaId> gone_;
  std::int32_t next_id_ = 0;
  std::size_t first_ = 0;  // replicas that join before anything else
  Version latest_;
  Version completed_;
  std::vector<Time> completions_;  // completions of the commits under way, oldest first
  Time last_completion_{};
  Time last_return_{};
  std::optional<Time> wake_;
};

}  // namespace paceline::policy::testing
