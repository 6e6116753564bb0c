// Which versions are kept for the evaluator, and that the servers are told to drop every one of them.
#include "paceline/decisions/coordinator/evaluations.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class EvaluationsTest : public testing::Test {
 protected:
  static constexpr std::int32_t kServers = 2;

  void request(std::int64_t version, bool last = false) { commit(version, true, last); }
  void commit(std::int64_t version, bool keep = false, bool last = false) {
    control::CommitRecord record;
    record.keep_for_evaluation = keep;
    record.version = Version(version);
    record.committed_before = 10 * (version - 1);
    record.samples = 10;
    evaluations_.committed(record, Time(std::chrono::seconds(version)), last);
  }
  void kept_by_all(std::int64_t version) {
    for (std::int32_t server = 0; server < kServers; ++server)
      evaluations_.kept(ServerId(server), Version(version));
  }
  std::optional<Evaluations::Measured> evaluated(std::int64_t version) {
    return evaluations_.evaluated({.version = Version(version), .loss = 0.5, .accuracy = 0.25});
  }
  // The messages since the last call.
  std::vector<std::string> said() { return std::exchange(said_, {}); }

  std::vector<std::string> said_;
  bool in_host_ = false;
  Evaluations evaluations_{std::size_t{kServers},
                           [this](const ServerOrder& order) {
                             const auto* const keep = std::get_if<Keep>(&order);
                             const auto* const drop = std::get_if<Drop>(&order);
                             said_.push_back(keep == nullptr ? fmt::format("drop {}", drop->version)
                                             : keep->in_host ? fmt::format("keep {} in host", keep->version)
                                                             : fmt::format("keep {}", keep->version));
                             EXPECT_TRUE(drop == nullptr || !drop->checkpoint);
                           },
                           [this](Version version) { said_.push_back(fmt::format("evaluate {}", version)); },
                           [this] { return in_host_; }};
};

TEST_F(EvaluationsTest, AVersionIsKeptByAllThenEvaluatedThenDropped) {
  evaluations_.evaluator_is_ready(false);
  request(7);
  EXPECT_THAT(said(), ElementsAre("keep 7"));
  evaluations_.kept(ServerId(1), Version(7));
  evaluations_.kept(ServerId(1), Version(7));
  EXPECT_THAT(said(), IsEmpty()) << "one of two servers keeps it";
  evaluations_.kept(ServerId(0), Version(7));
  EXPECT_THAT(said(), ElementsAre("evaluate 7"));
  EXPECT_FALSE(evaluations_.empty());
  const auto result = evaluated(7);
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->out_of_turn);
  EXPECT_EQ(result->result.at, Time(std::chrono::seconds(7)));
  EXPECT_EQ(result->result.version, Version(7));
  EXPECT_EQ(result->result.samples, 70);
  EXPECT_EQ(result->result.loss, 0.5);
  EXPECT_EQ(result->result.accuracy, 0.25);
  EXPECT_THAT(said(), ElementsAre("drop 7"));
  EXPECT_TRUE(evaluations_.empty());
}

TEST_F(EvaluationsTest, AnEvaluatorThatComesLateGetsWhatIsKeptByAll) {
  request(1);
  request(2);
  request(3);
  kept_by_all(1);
  evaluations_.kept(ServerId(0), Version(2));
  kept_by_all(3);
  EXPECT_THAT(said(), ElementsAre("keep 1", "keep 2", "keep 3"));
  evaluations_.evaluator_is_ready(false);
  EXPECT_THAT(said(), ElementsAre("evaluate 1", "evaluate 3"));
  evaluations_.kept(ServerId(1), Version(2));
  evaluations_.kept(ServerId(1), Version(2));
  EXPECT_THAT(said(), ElementsAre("evaluate 2")) << "and not twice";
}

TEST_F(EvaluationsTest, AnEvaluatorOfTheHostsMemoryGetsOnlyWhatIsKeptThere) {
  request(1);
  in_host_ = true;
  request(2);
  kept_by_all(1);
  kept_by_all(2);
  EXPECT_THAT(said(), ElementsAre("keep 1", "keep 2 in host"));
  evaluations_.evaluator_is_ready(true);
  EXPECT_THAT(said(), ElementsAre("drop 1", "evaluate 2"));
  EXPECT_FALSE(evaluated(1));
  EXPECT_TRUE(evaluated(2));
  EXPECT_TRUE(evaluations_.empty()) << "the end of the run waits for nothing";
}

TEST_F(EvaluationsTest, AnEvaluatorThatSeesTheCardReadsWhatIsKeptInBoth) {
  in_host_ = true;
  request(1);
  kept_by_all(1);
  evaluations_.evaluator_is_ready(false);
  EXPECT_THAT(said(), ElementsAre("keep 1 in host", "evaluate 1"));
}

TEST_F(EvaluationsTest, AnotherEvaluatorMeasuresWhatOneThatDiedHasNot) {
  evaluations_.evaluator_is_ready(false);
  request(1);
  request(2);
  kept_by_all(1);
  EXPECT_THAT(said(), ElementsAre("keep 1", "keep 2", "evaluate 1"));
  evaluations_.evaluator_is_gone();
  kept_by_all(2);
  EXPECT_THAT(said(), IsEmpty());
  evaluations_.evaluator_is_ready(false);
  EXPECT_THAT(said(), ElementsAre("evaluate 1", "evaluate 2"));
  EXPECT_TRUE(evaluated(1));
}

TEST_F(EvaluationsTest, BeyondTheMostOnlyTheLastOneIsTaken) {
  const auto most = static_cast<std::int64_t>(Evaluations::kMostWaiting);
  for (std::int64_t version = 1; version <= most; ++version) request(version);
  EXPECT_EQ(said().size(), Evaluations::kMostWaiting);
  request(most + 1);
  EXPECT_THAT(said(), IsEmpty());
  request(most + 2, true);
  EXPECT_THAT(said(), ElementsAre(fmt::format("keep {}", most + 2)));
}

TEST_F(EvaluationsTest, GivingUpDropsAllAndTakesNoMore) {
  evaluations_.evaluator_is_ready(false);
  request(1);
  request(2);
  said();
  evaluations_.give_up();
  EXPECT_THAT(said(), ElementsAre("drop 1", "drop 2"));
  EXPECT_TRUE(evaluations_.empty());
  request(3, true);
  kept_by_all(2);
  EXPECT_FALSE(evaluated(2));
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(EvaluationsTest, TheNewestVersionIsMeasuredOutOfTurnOnceAndWithTheTimeOfItsCommit) {
  evaluations_.evaluator_is_ready(false);
  EXPECT_FALSE(evaluations_.next_out_of_turn().ok()) << "nothing is committed";
  commit(1);
  commit(2);
  EXPECT_THAT(said(), IsEmpty());
  ASSERT_EQ(evaluations_.next_out_of_turn().value(), Version(2));
  evaluations_.request_out_of_turn();
  EXPECT_THAT(said(), ElementsAre("keep 2"));
  EXPECT_FALSE(evaluations_.next_out_of_turn().ok()) << "it is being measured";
  commit(3);
  EXPECT_FALSE(evaluations_.next_out_of_turn().ok()) << "one at a time";
  kept_by_all(2);
  EXPECT_THAT(said(), ElementsAre("evaluate 2"));
  const auto result = evaluated(2);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->out_of_turn);
  EXPECT_EQ(result->result.at, Time(std::chrono::seconds(2)));
  EXPECT_EQ(result->result.samples, 20);
  EXPECT_THAT(said(), ElementsAre("drop 2"));
  EXPECT_EQ(evaluations_.next_out_of_turn().value(), Version(3));
}

TEST_F(EvaluationsTest, AVersionMeasuredInTurnIsNotMeasuredAgain) {
  evaluations_.evaluator_is_ready(false);
  request(4);
  EXPECT_FALSE(evaluations_.next_out_of_turn().ok());
  kept_by_all(4);
  ASSERT_TRUE(evaluated(4));
  EXPECT_FALSE(evaluations_.next_out_of_turn().ok());
  commit(5);
  EXPECT_TRUE(evaluations_.next_out_of_turn().ok());
}

TEST_F(EvaluationsTest, OutOfTurnNothingIsKeptBeyondTheMost) {
  const auto most = static_cast<std::int64_t>(Evaluations::kMostWaiting);
  for (std::int64_t version = 1; version <= most; ++version) request(version);
  commit(most + 1);
  EXPECT_FALSE(evaluations_.next_out_of_turn().ok());
}

TEST_F(EvaluationsTest, IgnoresAResultThatWasNotAskedFor) {
  request(1);
  said();
  EXPECT_FALSE(evaluated(2));
  evaluations_.kept(ServerId(0), Version(2));
  EXPECT_THAT(said(), IsEmpty());
}

}  // namespace
}  // namespace paceline::coordinator
