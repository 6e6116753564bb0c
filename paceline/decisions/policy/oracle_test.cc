// Each policy against a second, deliberately dumber implementation: plain lists, every replica looked at
// every time, straight from the definitions. Random facts must give the same commits and the same releases.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/decisions/policy/testing/elastic_oracle.h"
#include "paceline/decisions/policy/testing/groups_oracle.h"
#include "paceline/decisions/policy/testing/oracle_fact.h"

namespace paceline::policy {
namespace {

using policy::testing::Answer;
using policy::testing::ElasticOracle;
using policy::testing::Fact;
using policy::testing::GroupsOracle;

// ---- The dumb one ----

struct Replica {
  int id = 0;
  std::int64_t clock = 0;
  bool computing = true;
  bool uncommitted = false;
  std::int64_t base = 0;
  std::vector<Time> readies;
  Duration compute{0};
  std::vector<Duration> intervals{};
  std::int64_t extra = 0;  // r[p]
};

class Oracle {
 public:
  explicit Oracle(PolicySpec spec) : spec_(std::move(spec)) {
    if (const auto* elastic = std::get_if<ElasticBspSpec>(&spec_)) elastic_.emplace(*elastic);
    if (const auto* groups = std::get_if<GroupsSpec>(&spec_)) {
      const auto as_policy = [](const auto& one) -> PolicySpec { return one; };
      between_groups_ = std::make_unique<Oracle>(std::visit(as_policy, groups->inner));
      groups_.emplace(groups->sizes, [this](const Fact& fact) { return between_groups_->take(fact); });
    }
  }

  Answer take(const Fact& fact) {
    if (elastic_) return elastic_->take(fact);
    if (groups_) return groups_->take(fact);
    Answer answer;
    if (fact.what == Fact::What::kJoin) {
      const std::int64_t level = slowest_clock();
      live_.push_back({});
      live_.back().id = fact.replica;
      live_.back().clock = level;
      answer.releases.push_back(fact.replica);
      return answer;
    }
    if (fact.what == Fact::What::kLeave) {
      if (find(fact.replica).uncommitted) answer.discards.push_back(fact.replica);
      std::erase_if(live_, [&](const Replica& replica) { return replica.id == fact.replica; });
    } else {
      Replica& replica = find(fact.replica);
      ++replica.clock;
      replica.computing = false;
      replica.uncommitted = true;
      replica.readies.push_back(fact.now);
      replica.compute = fact.compute;
      replica.intervals.push_back(fact.compute);
      replica.base = fact.base;
    }
    if (std::holds_alternative<BspSpec>(spec_))
      bulk(answer);
    else if (const auto* backup = std::get_if<BackupSpec>(&spec_))
      bulk_without(backup->spare, answer);
    else
      alone(fact, answer);
    version_ += static_cast<std::int64_t>(answer.commits.size());
    std::sort(answer.releases.begin(), answer.releases.end());
    return answer;
  }

  std::int64_t clock(int id) {
    if (groups_) return groups_->clock(id);
    return elastic_ ? elastic_->clock(id) : find(id).clock;
  }

 private:
  Replica& find(int id) {
    return *std::find_if(live_.begin(), live_.end(),
                         [&](const Replica& replica) { return replica.id == id; });
  }
  std::int64_t slowest_clock() const {
    std::int64_t slowest = live_.empty() ? 0 : live_[0].clock;
    for (const Replica& replica : live_) slowest = std::min(slowest, replica.clock);
    return slowest;
  }
  void release(Replica& replica, Answer& answer) {
    replica.computing = true;
    answer.releases.push_back(replica.id);
  }

  // "Collect Ready of all live replicas; then one Commit{all}, Release{all}."
  void bulk(Answer& answer) {
    if (live_.empty()) return;
    for (const Replica& replica : live_) {
      if (!replica.uncommitted) return;
    }
    answer.commits.emplace_back();
    for (Replica& replica : live_) {
      answer.commits[0].push_back(replica.id);
      replica.uncommitted = false;
      release(replica, answer);
    }
    std::sort(answer.commits[0].begin(), answer.commits[0].end());
  }

  // Discards gradients that are not of the newest version. If no more than `spare` are missing, commits the
  // rest.
  void bulk_without(std::int64_t spare, Answer& answer) {
    std::int64_t missing = 0;
    for (Replica& replica : live_) {
      const bool late = replica.uncommitted && replica.base != version_;
      if (late) {
        answer.discards.push_back(replica.id);
        replica.uncommitted = false;
        release(replica, answer);
      }
      missing += replica.uncommitted ? 0 : 1;
    }
    std::vector<int> members;
    if (missing > spare) return;
    for (Replica& replica : live_) {
      if (!replica.uncommitted) continue;
      members.push_back(replica.id);
      replica.uncommitted = false;
      release(replica, answer);
    }
    if (members.empty()) return;
    std::sort(members.begin(), members.end());
    answer.commits.push_back(members);
  }

  void alone(const Fact& fact, Answer& answer) {
    if (fact.what == Fact::What::kReady) {
      Replica& replica = find(fact.replica);
      answer.commits.push_back({replica.id});
      replica.uncommitted = false;
      if (std::holds_alternative<AspSpec>(spec_)) return release(replica, answer);
      const auto* dssp = std::get_if<DsspSpec>(&spec_);
      if (dssp != nullptr && dssp->reading != DsspReading::kTransient) look_ahead(*dssp, replica, answer);
    }
    // "Release every held replica whose gap ≤ s."
    const auto* ssp = std::get_if<SspSpec>(&spec_);
    const auto* dssp = std::get_if<DsspSpec>(&spec_);
    if (ssp == nullptr && dssp == nullptr) return;
    for (Replica& replica : live_) {
      const std::int64_t gap = replica.clock - slowest_clock();
      if (!replica.computing && gap <= (ssp != nullptr ? ssp->s : dssp->lower)) release(replica, answer);
    }
    if (dssp != nullptr && dssp->reading == DsspReading::kTransient) release_alike(*dssp, fact, answer);
  }

  // "The threshold is sU for a replica that takes at least three quarters as long as the slowest." Replicas
  // that were held before are looked at when the slowest clock has changed, or a replica has left.
  void release_alike(const DsspSpec& spec, const Fact& fact, Answer& answer) {
    if (live_.empty()) return;
    const bool all = fact.what == Fact::What::kLeave || slowest_clock() != looked_at_;
    looked_at_ = slowest_clock();
    const Replica slow = slowest();
    for (Replica& replica : live_) {
      const std::int64_t gap = replica.clock - slow.clock;
      if (replica.computing || gap > spec.upper || !(all || replica.id == fact.replica)) continue;
      if (!slow.intervals.empty() && long_run(replica) >= 0.75 * long_run(slow)) release(replica, answer);
    }
  }

  // The slowest replica; the one with the lowest number if several are equally slow.
  const Replica& slowest() const {
    const Replica* slow = nullptr;
    for (const Replica& replica : live_) {
      const bool slower = slow == nullptr || replica.clock < slow->clock ||
                          (replica.clock == slow->clock && replica.id < slow->id);
      if (slower) slow = &replica;
    }
    return *slow;
  }

  // A plain mean of the first 256 intervals, which then moves by a 256th.
  static double long_run(const Replica& replica) {
    double mean = 0, count = 0;
    for (const Duration interval : replica.intervals) {
      count = std::min(count + 1, 256.0);
      mean += 1 / count * (static_cast<double>(interval.count()) - mean);
    }
    return mean;
  }

  // Steps 1 to 3 of algorithm 1. Step 4 is everybody's.
  void look_ahead(const DsspSpec& spec, Replica& replica, Answer& answer) {
    const std::int64_t gap = replica.clock - slowest_clock();
    if (replica.extra > 0) {
      --replica.extra;
      return release(replica, answer);
    }
    if (gap <= spec.lower) return release(replica, answer);
    for (const Replica& other : live_) {
      if (other.clock > replica.clock) return;
    }
    const std::int64_t best = best_pair(spec, replica, gap);
    if (best == 0) return;
    replica.extra = spec.reading == DsspReading::kBounded ? best - 1 : best;
    release(replica, answer);
  }

  // Algorithm 2: every pair.
  std::int64_t best_pair(const DsspSpec& spec, const Replica& fast, std::int64_t gap) {
    const Replica* slow = &slowest();
    const std::optional<Duration> fast_interval = interval(spec, fast);
    const std::optional<Duration> slow_interval = interval(spec, *slow);
    if (!fast_interval || !slow_interval) return 0;
    const std::int64_t rmax = spec.upper - spec.lower;
    std::int64_t best = 0;
    Duration least = Duration::max();
    for (std::int64_t i = 0; i <= rmax; ++i) {
      if (spec.reading == DsspReading::kBounded && gap + i > spec.upper + 1) continue;
      for (std::int64_t k = 0; k <= rmax; ++k) {
        const Time a = fast.readies.back() + i * *fast_interval;
        const Time b = slow->readies.back() + *slow_interval + k * *slow_interval;
        if (std::chrono::abs(a - b) < least) {
          least = std::chrono::abs(a - b);
          best = i;
        }
      }
    }
    return best;
  }

  // Bounded: the last compute interval. As printed: between the last two ready times. Nothing while unknown.
  static std::optional<Duration> interval(const DsspSpec& spec, const Replica& replica) {
    const bool bounded = spec.reading == DsspReading::kBounded;
    const std::size_t needed = bounded ? 1 : 2;
    if (replica.readies.size() < needed) return std::nullopt;
    const Duration found =
        bounded ? replica.compute : replica.readies.back() - replica.readies[replica.readies.size() - 2];
    if (found <= Duration(0)) return std::nullopt;
    return found;
  }

  PolicySpec spec_;
  std::vector<Replica> live_;
  std::int64_t version_ = 0;
  std::int64_t looked_at_ = -1;  // the slowest clock
  // The two oracles below have books of their own.
  std::optional<ElasticOracle> elastic_;
  std::optional<GroupsOracle> groups_;
  std::unique_ptr<Oracle> between_groups_;
};

// ---- The real one, asked the same ----

class Asked {
 public:
  explicit Asked(const PolicySpec& spec) : policy_(make_policy(spec)) {}

  Answer take(const Fact& fact, std::int64_t clock) {
    orders_.clear();
    const ReplicaId replica(fact.replica);
    if (fact.what == Fact::What::kJoin) policy_->joined(fact.now, {replica, Clock(clock)}, orders_);
    if (fact.what == Fact::What::kLeave) policy_->left(fact.now, {replica}, orders_);
    if (fact.what == Fact::What::kReady) {
      policy_->ready(fact.now, {replica, Clock(clock), Version(fact.base), 1, fact.compute}, orders_);
    }
    Answer answer;
    for (const Order& order : orders_.list()) {
      if (const auto* commit = std::get_if<Commit>(&order)) {
        answer.commits.emplace_back();
        for (const Contribution& member : commit->members)
          answer.commits.back().push_back(member.replica.value());
      }
      if (const auto* release = std::get_if<Release>(&order))
        answer.releases.push_back(release->replica.value());
      if (const auto* discard = std::get_if<Discard>(&order)) {
        answer.discards.push_back(discard->contribution.replica.value());
      }
    }
    std::sort(answer.releases.begin(), answer.releases.end());
    return answer;
  }

 private:
  std::unique_ptr<SyncPolicy> policy_;
  Orders orders_{Version(0)};
};

// ---- Random facts ----

struct Running {
  int id = 0;
  Time due;
  Time released;
  bool computing = false;
  Duration usual;
  std::int64_t base = 0;  // the version of its release
};

class RandomRun {
 public:
  RandomRun(const PolicySpec& spec, std::uint64_t seed) : oracle_(spec), asked_(spec), rng_(seed) {
    // Every third run has whole seconds, so that there are many ties.
    grain_ = seed % 3 == 0 ? std::chrono::seconds(1) : std::chrono::nanoseconds(1);
    const int replicas = 1 + static_cast<int>(rng_.below(6));
    for (int i = 0; i < replicas; ++i) join();
  }

  // False at the first fact to which the two answer differently.
  bool run(int steps) {
    for (int step = 0; step < steps && same_; ++step) {
      if (live_.empty() || rng_.below(40) == 0) {
        join();
      } else if (rng_.below(40) == 0) {
        leave();
      } else {
        ready();
      }
    }
    return same_;
  }
  const std::string& history() const { return history_; }

 private:
  void join() {
    // A new one, or one that left comes back (as parked replicas do).
    int id = next_id_;
    if (!gone_.empty() && rng_.below(2) == 0) {
      id = gone_.back();
      gone_.pop_back();
    } else {
      ++next_id_;
    }
    live_.push_back({.id = id, .due = {}, .released = {}, .usual = round(500 + rng_.below(4000))});
    give({Fact::What::kJoin, live_.back().id, now_, {}});
  }

  void leave() {
    const std::size_t index = rng_.below(live_.size());
    const int id = live_[index].id;
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
    gone_.push_back(id);
    give({Fact::What::kLeave, id, now_, {}});
  }

  void ready() {
    Running* next = nullptr;
    for (Running& one : live_) {
      if (one.computing && (next == nullptr || one.due < next->due)) next = &one;
    }
    ASSERT_NE(next, nullptr) << "nobody computes\n" << history_;
    now_ = next->due;
    next->computing = false;
    // Now and then it pulled a version newer than that of its release.
    const std::int64_t base = rng_.below(5) == 0 ? version_ : next->base;
    give({Fact::What::kReady, next->id, now_, now_ - next->released, base});
  }

  void give(const Fact& fact) {
    static constexpr const char* kNames[] = {"join", "leave", "ready"};
    history_ +=
        fmt::format("{} {} {}\n", to_seconds(fact.now), kNames[static_cast<int>(fact.what)], fact.replica);
    const Answer expected = oracle_.take(fact);
    const std::int64_t clock = fact.what == Fact::What::kLeave ? 0 : oracle_.clock(fact.replica);
    const Answer found = asked_.take(fact, clock);
    same_ = same_ && expected == found;
    version_ += static_cast<std::int64_t>(expected.commits.size());
    for (const int id : expected.releases) {
      Running& one = *std::find_if(live_.begin(), live_.end(), [&](const Running& r) { return r.id == id; });
      one.computing = true;
      one.released = now_;
      one.due = now_ + interval(one);
      one.base = version_;
    }
  }

  Duration interval(const Running& one) {
    if (rng_.below(10) == 0) return round(rng_.below(20'000));  // a hiccup, or nothing at all
    return one.usual + round(rng_.below(300));
  }
  Duration round(std::uint64_t ms) const {
    const Duration exact = std::chrono::milliseconds(ms) + Duration(ms % 7);
    return exact / grain_ * grain_;
  }

  Oracle oracle_;
  Asked asked_;
  Rng rng_;
  Duration grain_;
  std::vector<Running> live_;
  Time now_{};
  std::int64_t version_ = 0;
  int next_id_ = 0;
  std::vector<int> gone_;
  bool same_ = true;
  std::string history_;
};

class Oracles : public ::testing::TestWithParam<const char*> {};

TEST_P(Oracles, GiveTheSameOrders) {
  const PolicySpec spec = parse_policy(GetParam()).value();
  for (std::uint64_t seed = 0; seed < effort::part_of(2000); ++seed) {
    RandomRun run(spec, seed);
    ASSERT_TRUE(run.run(120)) << GetParam() << ", seed " << seed << ": they differ at the last of\n"
                              << run.history();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, Oracles,
    ::testing::Values("bsp", "asp", "ssp:0", "ssp:1", "ssp:3", "dssp:0-0", "dssp:0-1", "dssp:0-4", "dssp:1-3",
                      "dssp:3-15", "dssp:0-4:printed", "dssp:3-15:printed", "dssp:0-2:transient",
                      "dssp:1-6:transient", "elastic-bsp:1", "elastic-bsp:2", "elastic-bsp:6",
                      "elastic-bsp:15", "elastic-bsp:2:average", "elastic-bsp:15:average", "backup:0",
                      "backup:1", "backup:2", "groups:2+2:bsp", "groups:1+2:asp", "groups:2+1+2:ssp:1",
                      "groups:1+2+2:ssp:3", "groups:2+2:dssp:0-4", "groups:2+1+1:dssp:3-15:printed",
                      "groups:1+3+1:elastic-bsp:4", "groups:1+2+1+1:backup:1"));

}  // namespace
}  // namespace paceline::policy
