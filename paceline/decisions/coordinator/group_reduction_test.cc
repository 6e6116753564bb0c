// Tests which workers are told to sum with which others.
#include "paceline/decisions/coordinator/group_reduction.h"

#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// w0 and w1 are a pipeline, w2 and w3 are each alone.
class GroupReduction : public testing::Test {
 protected:
  GroupReduction() : workers_(job_), replicas_(plan_, nullptr) {
    job_.devices.resize(4);
    for (int i = 0; i < 4; ++i) job_.devices[static_cast<std::size_t>(i)].name = fmt::format("w{}", i);
    for (int i = 0; i < 4; ++i) {
      EXPECT_FALSE(workers_.take_place(WorkerPeer(i), fmt::format("w{}", i), {}));
      Worker& worker = *workers_.find(WorkerPeer(i));
      worker.joined = true;
      worker.attached.emplace().gradient_path = fmt::format("memory {}", i);
      replicas_.form(worker, workers_);
    }
  }

  static control::CommitRecord commit_of(const std::vector<std::int32_t>& replicas) {
    control::CommitRecord record;
    record.version = Version(7);
    for (const std::int32_t replica : replicas) {
      control::CommitMember member;
      member.replica = ReplicaId(replica);
      member.clock = Clock(10 + replica);
      member.weight = 0.25;
      record.members.push_back(member);
    }
    return record;
  }
  // The orders of each worker.
  std::map<std::int64_t, Reduce> told() {
    std::map<std::int64_t, Reduce> told;
    for (const Action& action : out_.take()) {
      const auto& one = std::get<SendWorker>(action);
      told[one.to.value()] = std::get<Reduce>(one.order);
    }
    return told;
  }

  const planner::Plan plan_{{{{0, 1}, {3}, 4}, {{2}, {}, 4}, {{3}, {}, 4}}, 2};
  JobSettings job_;
  Outbox out_;
  WorkerTable workers_;
  ReplicaTable replicas_;
};

TEST_F(GroupReduction, EveryMemberHearsWhoTheOthersAreAndWhichItIs) {
  ASSERT_TRUE(order_reduction(commit_of({0, 2}), replicas_, out_));
  const auto all = told();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all.at(0).rank, 0) << "of the pipeline, its first stage";
  EXPECT_EQ(all.at(3).rank, 1);
  for (const auto& [peer, order] : all) {
    EXPECT_EQ(order.version, Version(7));
    ASSERT_EQ(order.members.size(), 2u);
    EXPECT_EQ(order.members[0].gradient_path, "memory 0");
    EXPECT_EQ(order.members[1].gradient_path, "memory 3");
    EXPECT_EQ(order.members[1].clock, Clock(12));
    EXPECT_EQ(order.members[1].weight, 0.25);
  }
}

TEST_F(GroupReduction, IsLeftToTheServersForOneMemberOrIfOneIsGone) {
  EXPECT_FALSE(order_reduction(commit_of({1}), replicas_, out_));
  replicas_.dissolve(ReplicaId(2));
  EXPECT_FALSE(order_reduction(commit_of({0, 2}), replicas_, out_));
  EXPECT_TRUE(told().empty()) << "nobody is told anything";
}

TEST_F(GroupReduction, TellsOnceWhichReplicasHaveLeft) {
  workers_.find(WorkerPeer(2))->left = {ReplicaId(8)};
  ASSERT_TRUE(order_reduction(commit_of({1, 2}), replicas_, out_));
  auto all = told();
  EXPECT_THAT(all.at(2).left, ElementsAre(ReplicaId(8)));
  EXPECT_THAT(all.at(3).left, IsEmpty());
  ASSERT_TRUE(order_reduction(commit_of({1, 2}), replicas_, out_));
  EXPECT_THAT(told().at(2).left, IsEmpty());
}

}  // namespace
}  // namespace paceline::coordinator
