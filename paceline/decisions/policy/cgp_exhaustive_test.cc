// Every order in which three replicas can do their iterations under CGP (two, two and one), their commits
// complete and its timers ring, and the same with one of them leaving at any point. A replica that has done
// its iterations leaves, as one does for which no samples are left.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/base/testing/every_choice.h"
#include "paceline/decisions/policy/testing/checked_policy.h"

namespace paceline::policy {
namespace {

using effort::kMostWays;
using paceline::testing::EveryChoice;
using policy::testing::CheckedPolicy;
using std::chrono::milliseconds;

constexpr int kReplicas = 3;
constexpr Clock kIterations[kReplicas] = {Clock{2}, Clock{2}, Clock{1}};
constexpr Duration kStep = milliseconds(400);

// One run, with CGP's promises beyond those that CheckedPolicy checks for every policy.
class Run {
 public:
  explicit Run(const CgpOptions& options) : options_(options), policy_(options) {
    for (int id = 0; id < kReplicas; ++id) follow(policy_.join(ReplicaId(id), now_));
  }

  // One step: a replica is ready next, or the oldest commit under way completes, or the timer rings, or
  // (once) a replica leaves. False when nothing can happen any more.
  bool step(EveryChoice& choose, bool& may_leave) {
    const std::vector<ReplicaId> runs = computing();
    // else the policy does not hear of completions
    const bool completes = policy_.under_way() && options_.k_max > 1;
    const bool rings = policy_.wake().has_value();
    const std::size_t happenings = runs.size() + (completes ? 1 : 0) + (rings ? 1 : 0);
    if (happenings == 0 || !policy_.broken().empty() || !broken_.empty()) return false;
    std::size_t pick = choose.below(happenings + (may_leave ? kReplicas : 0));
    const bool timer_first = policy_.wake() && *policy_.wake() <= now_ + kStep;
    if (rings && (pick == happenings - 1 || (timer_first && pick < happenings))) {
      ring();
      return true;
    }
    now_ += timer_first ? Duration::zero() : kStep;
    if (pick >= happenings) {
      may_leave = false;
      leave(ReplicaId(static_cast<int>(pick - happenings)));
    } else if (pick < runs.size()) {
      ready(runs[pick]);
    } else {
      follow(policy_.complete(now_));
    }
    return true;
  }

  std::string complaint() const {
    if (!policy_.broken().empty()) return policy_.broken();
    if (!broken_.empty()) return broken_;
    if (policy_.pending() != 0) return "a gradient waits for ever";
    if (policy_.committed() != finished_)
      return fmt::format("{} of {} committed", policy_.committed(), finished_);
    return {};
  }

 private:
  std::vector<ReplicaId> computing() const {
    std::vector<ReplicaId> ids;
    for (int id = 0; id < kReplicas; ++id) {
      if (policy_.computing(ReplicaId(id))) ids.emplace_back(id);
    }
    return ids;
  }

  void ready(ReplicaId replica) {
    ++finished_;
    waiting_[replica] = now_;
    asked_for_these_ = false;
    follow(policy_.ready(replica, now_));
  }

  void ring() {
    const Version before = policy_.version();
    // A timer asked for with fewer members is another one, and to the patient, window and dp one of several.
    const bool too_few = static_cast<std::int64_t>(waiting_.size()) < options_.k_min;
    const bool asks_once = options_.grouping == Grouping::kNatural && options_.patience == 0;
    const bool final = too_few || (asks_once && asked_for_these_);
    now_ = std::max(now_, *policy_.wake());
    const bool open = !waiting_.empty() && !blocked() && options_.wait_max != CgpOptions::kForever;
    follow(policy_.ring(now_));
    if (open && final && policy_.version() == before) complain("the timer rang and the group is still open");
  }

  void leave(ReplicaId replica) {
    if (!policy_.live(replica)) return;
    finished_ -= waiting_.erase(replica) > 0 ? 1 : 0;
    base_.erase(replica);
    asked_for_these_ = false;
    follow(policy_.leave(replica, now_));
  }

  // Whether a replica that computes would be too stale if a commit went without it.
  bool blocked() const {
    if (options_.staleness == CgpOptions::kNoLimit) return false;
    return std::any_of(base_.begin(), base_.end(), [&](const auto& one) {
      return policy_.computing(one.first) && policy_.version().next() - one.second > options_.staleness;
    });
  }

  void follow(const std::vector<Order>& orders) {
    const std::vector<Order> copy = orders;
    for (const Order& order : copy) {
      if (const auto* commit = std::get_if<Commit>(&order)) see(*commit);
      if (const auto* release = std::get_if<Release>(&order)) base_[release->replica] = release->version;
      if (std::holds_alternative<WakeAt>(order)) asked_for_these_ = true;
    }
    look_how_long_they_wait();
    for (int id = 0; id < kReplicas; ++id) {
      const ReplicaId replica(id);
      if (policy_.computing(replica) && policy_.clock(replica) == kIterations[id]) leave(replica);
    }
  }

  void see(const Commit& commit) {
    std::vector<Version> bases;
    for (const Contribution& member : commit.members) {
      bases.push_back(base_.at(member.replica));
      waiting_.erase(member.replica);
    }
    std::sort(bases.begin(), bases.end());
    for (std::size_t i = 0; i < bases.size(); ++i) {
      const bool could_wait =
          options_.staleness == CgpOptions::kNoLimit || commit.version - bases[i] <= options_.staleness;
      if (static_cast<std::int64_t>(i) >= options_.k_max && could_wait)
        complain("commit {} is of {}", commit.version, bases.size());
    }
  }

  void look_how_long_they_wait() {
    if (!options_.wait_max || *options_.wait_max == CgpOptions::kForever || blocked()) return;
    for (const auto& [replica, since] : waiting_) {
      if (now_ >= since + *options_.wait_max)
        complain("replica {} waits since {} s at {} s", replica, to_seconds(since), to_seconds(now_));
    }
  }

  template <class... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args) {
    if (broken_.empty()) broken_ = fmt::format(format, std::forward<Args>(args)...);
  }

  const CgpOptions options_;
  CheckedPolicy policy_;
  Time now_{};
  std::int64_t finished_ = 0;
  std::map<ReplicaId, Version> base_;
  std::map<ReplicaId, Time> waiting_;  // since when
  bool asked_for_these_ = false;       // the timer, since the last one came or left
  std::string broken_;
};

std::int64_t run_all(const CgpOptions& options, bool with_departure) {
  std::int64_t runs = 0;
  for (EveryChoice choose; runs < kMostWays && choose.again(); ++runs) {
    Run run(options);
    bool may_leave = with_departure;
    while (run.step(choose, may_leave)) {
    }
    if (!run.complaint().empty()) {
      ADD_FAILURE() << to_string(PolicySpec(options)) << ": " << run.complaint() << "\n" << choose.path();
      break;
    }
  }
  return runs;
}

class CgpExhaustive : public ::testing::TestWithParam<Grouping> {};

constexpr std::optional<Duration> kPredicted{};

// Each grouping with all sizes and bounds; how long a group may wait at most is the same to all groupings.
void every_setting(Grouping grouping, bool with_departure) {
  std::vector<std::optional<Duration>> waits{kPredicted};
  if (grouping == Grouping::kNatural && !with_departure)
    waits.insert(waits.end(), {CgpOptions::kForever, Duration::zero(), milliseconds(500)});
  for (const std::int64_t k_min : {1, 2, 9}) {
    for (const std::int64_t k_max : {std::int64_t{1}, std::int64_t{2}, CgpOptions::kNoLimit}) {
      for (const std::int64_t s : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, CgpOptions::kNoLimit}) {
        for (const auto& wait_max : waits) run_all({k_min, k_max, s, wait_max, grouping, 0}, with_departure);
        if (grouping == Grouping::kNatural && k_max != 1 && !with_departure)
          run_all({k_min, k_max, s, kPredicted, grouping, 1}, with_departure);
      }
    }
  }
}

TEST_P(CgpExhaustive, KeepsItsPromisesInEveryOrder) { every_setting(GetParam(), false); }
TEST_P(CgpExhaustive, KeepsItsPromisesWhenAReplicaLeavesAtAnyPoint) { every_setting(GetParam(), true); }

INSTANTIATE_TEST_SUITE_P(Groupings, CgpExhaustive,
                         ::testing::Values(Grouping::kNatural, Grouping::kWindow, Grouping::kDp),
                         [](const auto& test) { return to_string(test.param); });

// The enumeration is complete: if no completion is reported and no timer is set, the number of orders is
// known.
TEST(CgpExhaustive, CountsTheOrders) {
  EXPECT_EQ(run_all({.k_max = 1}, false), 30);                     // 5! / (2! 2! 1!)
  EXPECT_EQ(run_all({.k_max = 1, .staleness = 0}, false), 6 * 2);  // 3! for the first round, 2! for the next
}

}  // namespace
}  // namespace paceline::policy
