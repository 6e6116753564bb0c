// Runs on data whose length nobody knows until a replica comes to their end.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/control/testing/little_cluster.h"

namespace paceline::control {
namespace {

using control::testing::LittleCluster;
using ::testing::HasSubstr;

constexpr ReplicaId kFirst{0};
constexpr ReplicaId kSecond{1};

ControllerConfig config_of(std::int64_t total, std::int64_t ahead) {
  ControllerConfig config;
  config.dataset_size = 40;
  config.total_samples = total;
  config.start_replicas = 3;
  config.checkpoint_every = 25;
  config.ahead = ahead;
  return config;
}

// A line for each commit: its leases, and what follows from how many samples there are.
std::vector<std::string> commits_of(const ControllerConfig& config, std::int64_t end,
                                    const std::string& policy) {
  LittleCluster cluster(config, policy, 1);
  cluster.data_end_at(end);
  cluster.join("w0", 5, std::chrono::seconds(3));
  cluster.join("w1", 2, std::chrono::seconds(1));
  cluster.join("w2", 7, std::chrono::seconds(2));
  cluster.run_until_finished();
  EXPECT_EQ(cluster.broken(), "");
  EXPECT_TRUE(cluster.finished());
  std::vector<std::string> lines;
  for (const CommitRecord& commit : cluster.log()) {
    std::string line =
        fmt::format("{} {} {}", commit.fraction, commit.keep_for_evaluation, commit.checkpoint.has_value());
    for (const CommitMember& member : commit.members)
      line +=
          fmt::format(" {}:{}-{} {}", member.lease.epoch, member.lease.begin, member.lease.end, member.share);
    lines.push_back(line);
  }
  return lines;
}

TEST(DataEnd, ARoundIsTheSameWhetherTheLengthIsKnownOrFound) {
  for (std::int64_t end = 1; end <= 130; ++end) {
    for (const std::int64_t ahead : {0, 3}) {
      EXPECT_EQ(commits_of(config_of(kUnknownTotal, ahead), end, "bsp"),
                commits_of(config_of(end, 0), end, "bsp"))
          << end << " samples, " << ahead << " ahead";
    }
  }
}

Controller two_replicas(std::int64_t total) {
  ControllerConfig config = config_of(total, 0);
  config.start_replicas = 2;
  Controller controller(config, policy::make_policy(policy::parse_policy("bsp").value()));
  std::vector<Order> orders;
  for (const ReplicaId replica : {kFirst, kSecond})
    EXPECT_TRUE(
        controller.handle({Time{}, ReplicaJoined{replica, fmt::format("w{}", replica), 10}}, orders).ok());
  return controller;
}

Fact ready(ReplicaId replica, std::int64_t end) {
  return {Time{}, ReplicaReady{.replica = replica, .clock = Clock(1), .base = Version(0), .data_end = end}};
}

TEST(DataEnd, AnEndThatContradictsWhatIsKnownIsTheReplicasMistake) {
  std::vector<Order> orders;
  Controller known = two_replicas(100);
  EXPECT_THAT(known.handle(ready(kFirst, 50), orders).message(), HasSubstr("the data end at sample 50"));
  EXPECT_TRUE(known.handle(ready(kFirst, 100), orders).ok());

  Controller found = two_replicas(kUnknownTotal);
  EXPECT_FALSE(found.handle(ready(kFirst, 0), orders).ok());
  EXPECT_FALSE(found.handle(ready(kFirst, -3), orders).ok());
  EXPECT_TRUE(found.handle(ready(kFirst, 15), orders).ok());
  EXPECT_FALSE(found.handle(ready(kSecond, 5), orders).ok()) << "the first one has finished ten samples";
  EXPECT_FALSE(found.handle(ready(kSecond, 16), orders).ok()) << "another end is known";
  orders.clear();
  EXPECT_TRUE(found.handle(ready(kSecond, 15), orders).ok());
  ASSERT_FALSE(orders.empty());
  const auto& commit = std::get<CommitRecord>(orders.front());
  EXPECT_EQ(commit.samples, 15);
  EXPECT_TRUE(commit.checkpoint);
  EXPECT_TRUE(std::holds_alternative<Finish>(orders.back()));
}

TEST(DataEnd, AReplicaThatFinishedMoreSamplesContradictsAnEarlierEnd) {
  std::vector<Order> orders;
  Controller controller = two_replicas(kUnknownTotal);
  Fact finished = ready(kSecond, 0);
  std::get<ReplicaReady>(finished.what).data_end.reset();
  ASSERT_TRUE(controller.handle(finished, orders).ok());  // samples 10 to 20
  EXPECT_THAT(controller.handle(ready(kFirst, 15), orders).message(),
              HasSubstr("others found more or fewer"));
}

}  // namespace
}  // namespace paceline::control
