// What a host does that hears nothing of the coordinator, by what the run folder says.
#include "paceline/launch/succession.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "paceline/store/lock_file.h"
#include "paceline/store/test_directory.h"

namespace paceline::launch {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
constexpr char kFirst[] = "10.0.0.1:7461";
constexpr char kThird[] = "10.0.0.3:7461";

class SuccessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(runs::write_leader(run_, {0, kFirst}).ok());
    store::put_bytes(run_.mark(), "1234\n");
    host_.heard(run_.root.string(), start_);
  }
  Succession::Step after(int silent_s) { return host_.look(start_ + seconds(silent_s)); }

  const store::TestDirectory folder_;
  const store::RunPaths run_{folder_.path()};
  const Succession::SteadyTime start_ = std::chrono::steady_clock::now();
  Succession host_{1, 30, "", start_};
};

TEST_F(SuccessionTest, WaitsForACoordinatorThatWasHeardNotLongAgo) {
  EXPECT_TRUE(std::holds_alternative<std::monostate>(after(1)));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(after(31)));
}

TEST_F(SuccessionTest, LeadsWhereNobodyDoes) {
  const auto step = after(32);
  ASSERT_TRUE(std::holds_alternative<Succession::Lead>(step));
  EXPECT_EQ(std::get<Succession::Lead>(step).lost, 0);
}

// As where it led a run before it was started again.
TEST_F(SuccessionTest, LosesNobodyWhereItLedItself) {
  ASSERT_TRUE(runs::write_leader(run_, {1, kFirst}).ok());
  const auto step = after(32);
  ASSERT_TRUE(std::holds_alternative<Succession::Lead>(step));
  EXPECT_EQ(std::get<Succession::Lead>(step).lost, std::nullopt);
}

TEST_F(SuccessionTest, EachHostHasItsTurn) {
  Succession next(2, 30, "", start_);
  next.heard(run_.root.string(), start_);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(next.look(start_ + seconds(33))));
  EXPECT_TRUE(std::holds_alternative<Succession::Lead>(next.look(start_ + seconds(34))));
}

// As where this host is cut off, or the coordinator hangs.
TEST_F(SuccessionTest, NeverLeadsWhereAnotherProcessHoldsTheFolder) {
  const auto held = store::lock_file(run_.lock());
  ASSERT_TRUE(held.ok() && held->has_value());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(after(1000)));
}

TEST_F(SuccessionTest, GoesWhereTheRunIsLedFrom) {
  ASSERT_TRUE(runs::write_leader(run_, {2, kThird}).ok());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(after(1)));
  const auto step = after(3);
  ASSERT_TRUE(std::holds_alternative<Succession::Follow>(step));
  EXPECT_EQ(std::get<Succession::Follow>(step).leader, (runs::Leader{2, kThird}));
  // Once it is there, it waits there.
  EXPECT_TRUE(std::holds_alternative<std::monostate>(after(5)));
}

TEST_F(SuccessionTest, SeesThatTheRunIsOver) {
  fs::remove(run_.mark());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(after(1)));
  EXPECT_TRUE(std::holds_alternative<Succession::Over>(after(3)));
}

// As after a restart in the middle of it.
TEST_F(SuccessionTest, MayKnowTheRunFromItsStart) {
  Succession fresh(1, 30, run_.root.string(), start_);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(fresh.look(start_ + seconds(31))));
  EXPECT_TRUE(std::holds_alternative<Succession::Lead>(fresh.look(start_ + seconds(32))));
}

TEST_F(SuccessionTest, DoesNothingBeforeItHasHeardOfARun) {
  Succession fresh(1, 30, "", start_);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(fresh.look(start_ + seconds(1000))));
  fs::remove(run_.leader());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(after(1000)));
  store::put_bytes(run_.leader(), "somewhere");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(after(1001)));
}

}  // namespace
}  // namespace paceline::launch
