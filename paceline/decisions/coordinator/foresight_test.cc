// Tests by hand of facts that wait while servers know the next commit; and a Controller with random workers and servers,
// in which no server may ever have another commit than the one that is ordered.
#include "paceline/decisions/coordinator/foresight.h"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"
#include "paceline/decisions/coordinator/apply_order.h"
#include "paceline/decisions/coordinator/timed_controller.h"
#include "paceline/decisions/policy/policy_spec.h"

namespace paceline::coordinator {
namespace {

using testing::ElementsAre, testing::IsEmpty;
using What = decltype(control::Fact::what);

control::CommitRecord commit_of(int version, std::vector<int> replicas) {
  control::CommitRecord record;
  record.version = Version(version);
  for (const int replica : replicas)
    record.members.push_back({ReplicaId(replica), Clock(version), Version(version - 1), {}, 0.5, 0.5});
  return record;
}

What ready(int replica, int clock) {
  return control::ReplicaReady{ReplicaId(replica), Clock(clock), Version(clock - 1), Duration(1), 0};
}
What left(int replica) { return control::ReplicaLeft{ReplicaId(replica), "gone"}; }

class ForesightTest : public testing::Test {
 protected:
  // The orders to the servers since the last call: "expect 1", "revoke 1".
  std::vector<std::string> told() { return std::exchange(told_, {}); }
  std::optional<std::string> next() {
    const auto held = foresight_.next_held();
    if (!held) return std::nullopt;
    if (std::holds_alternative<UnmapGradient>(*held)) return "unmap";
    return std::holds_alternative<control::ReplicaLeft>(std::get<What>(*held)) ? "left" : "another fact";
  }

  Foresight foresight_{2, [this](const ServerOrder& order) {
                         if (const auto* expect = std::get_if<Expect>(&order))
                           told_.push_back(fmt::format("expect {}", expect->commit.version));
                         if (const auto* revoke = std::get_if<Revoke>(&order))
                           told_.push_back(fmt::format("revoke {}", revoke->version));
                       }};
  std::vector<std::string> told_;
};

TEST_F(ForesightTest, TakesTheGradientsThatItExpectsOnceEachAndNoOtherFact) {
  EXPECT_TRUE(foresight_.may_take(left(0)));
  foresight_.expect(commit_of(1, {0, 1}));
  EXPECT_THAT(told(), ElementsAre("expect 1"));
  EXPECT_TRUE(foresight_.may_take(ready(0, 1)));
  EXPECT_FALSE(foresight_.may_take(ready(2, 1)));
  EXPECT_FALSE(foresight_.may_take(ready(0, 2)));
  EXPECT_FALSE(foresight_.may_take(left(0)));
  EXPECT_FALSE(foresight_.may_take(control::StopAsked{"told to"}));
  for (const bool weighs : {true, false}) {
    auto other = std::get<control::ReplicaReady>(ready(1, 1));
    if (weighs) other.weight = 2;
    if (!weighs) other.data_end = 2;
    EXPECT_FALSE(foresight_.may_take(other));
  }
  foresight_.taken(ready(0, 1));
  EXPECT_FALSE(foresight_.may_take(ready(0, 1))) << "it said so before";
  EXPECT_TRUE(foresight_.may_take(ready(1, 1)));
  foresight_.ordered(commit_of(1, {0, 1}));
  EXPECT_FALSE(foresight_.expects());
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(ForesightTest, HoldsAFactUntilEachServerHasAnsweredThatItDidNotMakeTheCommit) {
  foresight_.expect(commit_of(1, {0, 1}));
  foresight_.hold(left(0));
  foresight_.hold(UnmapGradient{ReplicaId(0)});
  EXPECT_THAT(told(), ElementsAre("expect 1", "revoke 1"));
  foresight_.answered(ServerId(0), Version(1), false);
  foresight_.answered(ServerId(0), Version(1), false);
  foresight_.answered(ServerId(1), Version(7), false);
  EXPECT_EQ(next(), std::nullopt);
  foresight_.answered(ServerId(1), Version(1), false);
  EXPECT_EQ(next(), "left");
  EXPECT_EQ(next(), "unmap");
  EXPECT_EQ(next(), std::nullopt);
  foresight_.expect(commit_of(1, {1}));
  EXPECT_THAT(told(), ElementsAre("expect 1"));
}

TEST_F(ForesightTest, HoldsAFactUntilACommitThatAServerHasMadeIsOrdered) {
  foresight_.expect(commit_of(1, {0, 1}));
  foresight_.taken(ready(0, 1));
  foresight_.hold(left(0));
  foresight_.answered(ServerId(0), Version(1), false);
  foresight_.answered(ServerId(1), Version(1), true);
  EXPECT_EQ(next(), std::nullopt);
  EXPECT_EQ(foresight_.lost(), std::nullopt) << "0 was ready before it left";
  EXPECT_TRUE(foresight_.may_take(ready(1, 1)));
  foresight_.taken(ready(1, 1));
  foresight_.ordered(commit_of(1, {0, 1}));
  EXPECT_EQ(next(), "left");
}

TEST_F(ForesightTest, NoticesAMemberThatIsGoneAndNeverSaidWhatAServerHasUsed) {
  foresight_.expect(commit_of(1, {0, 1}));
  foresight_.taken(ready(1, 1));
  foresight_.hold(left(0));
  foresight_.answered(ServerId(1), Version(1), true);
  EXPECT_EQ(foresight_.lost(), ReplicaId(0));
}

TEST_F(ForesightTest, AMemberMayHaveBeenReadyBeforeTheCommitWasExpected) {
  foresight_.expect(commit_of(1, {0, 1, 2}));
  foresight_.taken(ready(1, 1));
  foresight_.hold(left(0));
  for (const int server : {0, 1}) foresight_.answered(ServerId(server), Version(1), false);
  EXPECT_EQ(next(), "left");
  foresight_.expect(commit_of(1, {1, 2}));
  EXPECT_FALSE(foresight_.may_take(ready(1, 1))) << "it said so before";
  foresight_.hold(left(1));
  foresight_.answered(ServerId(0), Version(1), true);
  EXPECT_EQ(foresight_.lost(), std::nullopt);
}

TEST_F(ForesightTest, AServerThatIsBackAnswersByItsVersionOrLearnsOfTheCommit) {
  EXPECT_FALSE(foresight_.back(ServerId(0), Version(0), false));
  foresight_.expect(commit_of(1, {0}));
  EXPECT_TRUE(foresight_.back(ServerId(0), Version(0), false));
  EXPECT_FALSE(foresight_.back(ServerId(0), Version(1), false)) << "it has made it";
  foresight_.hold(left(0));
  foresight_.answered(ServerId(1), Version(1), false);
  EXPECT_FALSE(foresight_.back(ServerId(0), Version(0), false)) << "it is not to make it any more";
  EXPECT_FALSE(foresight_.expects());
}

TEST_F(ForesightTest, ACommitThatAServerHasBegunIsTheNextOne) {
  for (const bool revoked_before : {true, false}) {
    foresight_.expect(commit_of(1, {0, 1}));
    foresight_.taken(ready(0, 1));
    if (revoked_before) foresight_.hold(left(0));
    EXPECT_EQ(foresight_.back(ServerId(0), Version(0), true).has_value(), !revoked_before);
    if (!revoked_before) foresight_.hold(left(0));
    for (const int server : {0, 1}) foresight_.answered(ServerId(server), Version(1), false);
    EXPECT_TRUE(foresight_.expects());
    EXPECT_FALSE(foresight_.awaits_answers());
    foresight_.taken(ready(1, 1));
    foresight_.ordered(commit_of(1, {0, 1}));
    EXPECT_EQ(next(), "left");
  }
}

TEST_F(ForesightTest, ExpectsTheSameCommitAgainAfterItWasRevoked) {
  foresight_.expect(commit_of(1, {0}));
  foresight_.revoke();
  EXPECT_EQ(foresight_.newest(Version(0)), Version(1));
  for (const int server : {0, 1}) foresight_.answered(ServerId(server), Version(1), false);
  EXPECT_EQ(foresight_.newest(Version(0)), Version(0));
  foresight_.expect(commit_of(1, {0}));
  EXPECT_TRUE(foresight_.expects());
  EXPECT_THAT(told(), ElementsAre("expect 1", "revoke 1", "expect 1"));
}

TEST_F(ForesightTest, DiesOfAnOrderThatIsNotTheCommitOfTheServers) {
  foresight_.expect(commit_of(1, {0, 1}));
  EXPECT_DEATH(foresight_.ordered(commit_of(1, {0})), "is not as the servers know it");
}

// ---- A Controller, workers that say in memory that they are ready and then to the Controller, and servers

constexpr std::size_t kServers = 2;

class LittleJob {
 public:
  LittleJob(const std::string& policy, std::uint64_t seed) : rng_(seed) {
    controller_ = std::make_unique<TimedController>(
        control::ControllerConfig{
            .dataset_size = 40, .total_samples = 40, .start_replicas = 2, .schedule = {}},
        policy::make_policy(policy::parse_policy(policy).value()), out_,
        [this](const control::Order& order, const auto&) { carry_out(order); });
    controller_->foresee(kServers, [this](const ServerOrder& order) { tell(order); },
                         {.refused = [](ReplicaId, const absl::Status& why) { ADD_FAILURE() << why; },
                          .settled = [this] { settled_ += controller_->settle() ? 1 : 1000; }});
    join();
    join();
  }

  // Returns what went wrong.
  std::string run() {
    for (int step = 0; step < 2000 && !controller_->finished() && broken_.empty(); ++step) act();
    return broken_.empty() && !controller_->finished() ? "it never ends" : broken_;
  }
  int early() const { return early_; }
  int settled() const { return settled_; }
  int revoked() const { return revoked_; }

 private:
  struct Worker {
    Clock clock;  // the iteration that it computes
    Version base;
    bool computes = false;
    std::deque<control::ReplicaReady> on_the_way{};  // to the Controller
  };
  struct Server {
    std::deque<ServerOrder> orders;
    std::optional<Apply> expected;
    std::vector<Apply> made;  // versions 1, 2, …
    std::deque<std::pair<Version, bool>> answers;
  };

  void act() {
    const auto dice = rng_.below(100);
    if (dice < 2 && workers_.size() < 4) return join();
    if (dice < 4 && workers_.size() > 1) return leave();
    if (dice < 5) return static_cast<void>(controller_->settle());
    if (dice < 40 && !workers_.empty()) return work();
    if (dice < 60) return hear();
    Server& server = servers_[rng_.below(kServers)];
    if (dice < 85) return serve(server);
    look(server);
  }

  void join() {
    const ReplicaId id(next_++);
    workers_[id];
    take(control::ReplicaJoined{id, fmt::format("w{}", id), 2});
  }
  // Its messages arrive before the end of its stream is seen.
  void leave() {
    auto worker = workers_.begin();
    std::advance(worker, rng_.below(workers_.size()));
    const ReplicaId id = worker->first;
    for (const control::ReplicaReady& fact : std::exchange(worker->second.on_the_way, {})) take(fact);
    workers_.erase(id);
    take(control::ReplicaLeft{id, "gone"});
  }
  void work() {
    auto worker = workers_.begin();
    std::advance(worker, rng_.below(workers_.size()));
    Worker& one = worker->second;
    if (!one.computes) return;
    one.computes = false;
    one.on_the_way.push_back({worker->first, one.clock, one.base, Duration(1), 0});
    said_[worker->first] = one.clock;
  }
  void hear() {
    for (auto& [id, worker] : workers_) {
      if (worker.on_the_way.empty()) continue;
      const control::ReplicaReady fact = worker.on_the_way.front();
      worker.on_the_way.pop_front();
      return take(fact);
    }
    for (std::size_t i = 0; i < kServers; ++i) {
      if (servers_[i].answers.empty()) continue;
      const auto [version, made] = servers_[i].answers.front();
      servers_[i].answers.pop_front();
      return controller_->answered(now(), ServerId(static_cast<std::int32_t>(i)), version, made);
    }
  }
  void serve(Server& server) {
    if (server.orders.empty()) return;
    const ServerOrder order = std::move(server.orders.front());
    server.orders.pop_front();
    const auto newest = static_cast<std::int64_t>(server.made.size());
    if (const auto* expect = std::get_if<Expect>(&order)) server.expected = expect->commit;
    if (const auto* revoke = std::get_if<Revoke>(&order)) {
      server.expected.reset();
      ++revoked_;
      server.answers.emplace_back(revoke->version, newest >= revoke->version.value());
    }
    if (const auto* apply = std::get_if<Apply>(&order)) {
      server.expected.reset();
      if (newest < apply->version.value()) server.made.push_back(*apply);
      if (!(server.made.back() == *apply))
        broken_ = fmt::format("a server has another version {}", apply->version);
    }
  }
  void look(Server& server) {
    if (!server.expected) return;
    for (const Apply::Member& member : server.expected->members) {
      if (said_[member.replica] != member.clock) return;
    }
    server.made.push_back(*std::exchange(server.expected, std::nullopt));
    ++early_;
  }

  void take(What fact) {
    const absl::Status taken = controller_->take(now(), std::move(fact));
    if (!taken.ok()) broken_ = taken.ToString();
  }
  void tell(const ServerOrder& order) {
    for (Server& server : servers_) server.orders.push_back(order);
  }
  void carry_out(const control::Order& order) {
    if (const auto* commit = std::get_if<control::CommitRecord>(&order)) tell(apply_order(*commit));
    const auto* const release = std::get_if<control::Release>(&order);
    if (release == nullptr) return;
    const auto found = workers_.find(release->replica);
    if (found == workers_.end()) return;
    found->second.clock = release->clock;
    found->second.base = release->version;
    found->second.computes = true;
  }
  SteadyTime now() { return SteadyTime(std::chrono::milliseconds(++time_)); }

  Rng rng_;
  Outbox out_;
  std::unique_ptr<TimedController> controller_;
  std::map<ReplicaId, Worker> workers_;
  std::map<ReplicaId, Clock> said_;  // in memory, which stays when its worker leaves
  std::array<Server, kServers> servers_;
  std::int32_t next_ = 0;
  int time_ = 0, early_ = 0, revoked_ = 0, settled_ = 0;
  std::string broken_;
};

class ForesightOf : public testing::TestWithParam<std::string> {};

TEST_P(ForesightOf, AServerNeverHasAnotherCommitThanIsOrdered) {
  int early = 0, revoked = 0;
  for (std::uint64_t seed = 0; seed < effort::part_of(3000); ++seed) {
    LittleJob job(GetParam(), seed);
    ASSERT_EQ(job.run(), "") << seed;
    early += job.early();
    revoked += job.revoked();
  }
  constexpr int kEnough = effort::kSanitized ? 20 : 500;
  EXPECT_GT(early, kEnough);
  EXPECT_GT(revoked, kEnough);
}

INSTANTIATE_TEST_SUITE_P(Policies, ForesightOf, testing::Values("bsp", "asp", "dssp:1-3", "backup:0"),
                         [](const auto& test) { return test.param.substr(0, test.param.find(':')); });

}  // namespace
}  // namespace paceline::coordinator
