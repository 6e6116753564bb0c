// Cgp a second time, deliberately dumber, from its text and not from its code: it keeps every event of its
// life in one list, and counts whatever it needs to know from the whole of it, each time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/decisions/policy/cgp.h"
#include "paceline/decisions/policy/testing/random_world.h"

namespace paceline::policy::testing {

struct CgpAnswer {
  std::vector<std::vector<Contribution>> commits;
  std::vector<ReplicaId> releases;  // in order of id
  std::vector<Contribution> discards;
  std::optional<Time> wake;  // when the open group wants to be looked at again
};

class CgpOracle {
 public:
  explicit CgpOracle(const CgpOptions& options) : options_(options) {}
  CgpAnswer take(const WorldFact& fact);

 private:
  // A fact, or an order of this oracle.
  struct Event {
    enum class What { kRelease, kReady, kLeave, kOrder, kComplete } what;
    Time at;
    ReplicaId replica{};
    Clock clock{};
    Version version{};  // released on, base, or the commit's
    std::size_t members = 0;
    // Only for a replica that is ready: when its weights arrived (0: unknown), and their version.
    Time weights{};
    Version weights_of{};
    bool by_commit = false;  // only for a release
  };
  struct Expected {
    Time at;
    Time latest;
  };
  // The terms of one gradient that was committed.
  struct Payment {
    double late;    // gradients committed while it was computed
    double waited;  // iterations
    double live;    // replicas
  };
  // The events' information about the path.
  struct Path {
    std::optional<double> global;
    std::vector<std::pair<std::size_t, double>> spans;  // members and time
    std::vector<Time> expected;                         // completions of the commits under way
    std::vector<Event> under_way;
    double span(std::size_t members) const;
    Duration reduce(std::size_t members) const;
    void learn(const Event& order, Time ended, Time before);
  };

  Version latest() const;
  // The replica's newest release, if it computes.
  std::optional<Event> computing(ReplicaId replica) const;
  std::vector<Event> all_computing() const;
  // The intervals since the replica joined, from release to ready, in seconds.
  std::vector<double> intervals(ReplicaId replica) const;
  std::optional<Expected> expected(const Event& release) const;
  // The replicas that are expected and not overdue, in order.
  std::vector<Expected> coming(Time now) const;
  Path path() const;
  // The time from which the open group's weights find the way back free.
  Time back_free() const;
  bool blocked() const;
  // Whether the group closes now. If not, the time at which to look again.
  bool closes(Time now, Time& again);
  bool patient(Time now, Time& again);
  bool natural_closes(Time now, Time& again);
  bool window_closes(Time now, Time& again) const;
  bool dp_closes(Time now, Time& again) const;
  double seconds_of(ReplicaId replica) const;
  double dearer(std::size_t few, std::size_t many) const;
  double gradients_since(ReplicaId replica) const;
  double purse() const;
  Time timer(Time now) const;
  void close(Time now, CgpAnswer& answer);
  void release(ReplicaId replica, bool by_commit, Time now, CgpAnswer& answer);

  const CgpOptions options_;
  std::vector<Event> events_;
  std::vector<Event> group_;  // the Readies that wait, in order of coming
  Time timer_{Time::max()};
  bool was_blocked_ = false;                // about the open group
  std::vector<std::vector<Payment>> paid_;  // one list for each commit
  std::optional<Time> could_go_;            // the time since which only patience keeps the open group
  std::size_t could_go_with_ = 0;           // members then
  Time plan_until_{Time::min()};            // about the open group, too
  std::size_t plan_members_ = 0;
};

}  // namespace paceline::policy::testing
