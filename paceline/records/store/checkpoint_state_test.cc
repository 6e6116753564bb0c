#include "paceline/records/store/checkpoint_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "paceline/records/store/controller_state_json.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_formats.h"

namespace paceline::store {
namespace {

CheckpointState sample() {
  CheckpointState state;
  state.controller = {Version(7),
                      {.next = 100, .open = {{10, 20}, {20, 25}, {90, 100}}},
                      {{"w0", Clock(3)}, {"w1", Clock(0)}}};
  state.elapsed = Duration(1'234'567'890'123);
  state.samples = 75;
  state.shards = 2;
  return state;
}

TEST(CheckpointState, ReadsWhatItWrote) {
  const TestDirectory directory;
  ASSERT_TRUE(atomic_write(directory / "state.json", to_text(sample())).ok());
  const auto state = read_checkpoint_state(directory / "state.json");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->controller.version, Version(7));
  EXPECT_EQ(state->controller.ledger.next, 100);
  EXPECT_EQ(state->controller.ledger.open, sample().controller.ledger.open);
  EXPECT_EQ(state->controller.clocks, sample().controller.clocks);
  EXPECT_EQ(state->elapsed, sample().elapsed);
  EXPECT_EQ(state->samples, 75);
  EXPECT_EQ(state->shards, 2);
}

TEST(CheckpointState, ANameThatIsNotUtf8DoesNotCostTheCheckpoint) {
  const TestDirectory directory;
  CheckpointState state = sample();
  state.controller.clocks["\xff"] = Clock(5);
  ASSERT_TRUE(atomic_write(directory / "state.json", to_text(state)).ok());
  EXPECT_EQ(read_checkpoint_state(directory / "state.json")->controller.clocks.size(), 3u);
}

TEST(CheckpointState, EveryTruncationAndEveryFlippedBitIsAnErrorOrChangesNothing) {
  const TestDirectory directory;
  const std::string whole = to_text(sample());
  const auto read = [&](const std::string& text) {
    put_bytes(directory / "state.json", text);
    return read_checkpoint_state(directory / "state.json");
  };
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(read(whole.substr(0, size)).status())) << size;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string text = whole;
      text[i] = static_cast<char>(text[i] ^ (1 << bit));
      const auto state = read(text);
      EXPECT_TRUE(!state.ok() || to_text(*state) == whole) << i;
    }
  }
}

TEST(CheckpointState, OfAnotherVersionIsNotDamaged) {
  const TestDirectory directory;
  std::string next = in_next_format(to_text(sample()));
  put_bytes(directory / "state.json", next);
  const absl::Status status = read_checkpoint_state(directory / "state.json").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::EndsWith("/state.json: written by another version of Paceline; use that one"));
  next[next.find("\"elapsed_ns\": 1") + 14] = '2';
  put_bytes(directory / "state.json", next);
  EXPECT_TRUE(absl::IsDataLoss(read_checkpoint_state(directory / "state.json").status()));
}

TEST(CheckpointState, RefusesContradictions) {
  const TestDirectory directory;
  std::vector<CheckpointState> odd(4, sample());
  odd[0].samples = 76;
  odd[1].shards = 0;
  odd[2].shards = kMaxShards + 1;
  odd[3].elapsed = Duration(-1);
  for (const CheckpointState& state : odd) {
    put_bytes(directory / "state.json", to_text(state));
    EXPECT_TRUE(absl::IsDataLoss(read_checkpoint_state(directory / "state.json").status()));
  }
}

TEST(ControllerStateJson, RefusesImpossibleStates) {
  const auto with = [](const char* ledger, const char* clocks, const char* version) {
    return fmt::format(R"({{"version":{},"ledger":{},"clocks":{}}})", version, ledger, clocks);
  };
  EXPECT_TRUE(controller_state_from_text(with(R"({"next":9,"open":[[1,2],[2,9]]})", R"({"w":1})", "3")).ok());
  for (const std::string& text : {
           with(R"({"next":9,"open":[[1,2],[1,9]]})", "{}", "3"),
           with(R"({"next":9,"open":[[1,10]]})", "{}", "3"),
           with(R"({"next":9,"open":[[5,6],[1,2]]})", "{}", "3"),
           with(R"({"next":9,"open":[[2,2]]})", "{}", "3"),
           with(R"({"next":9,"open":[[3,2]]})", "{}", "3"),
           with(R"({"next":9,"open":[[-1,2]]})", "{}", "3"),
           with(R"({"next":9,"open":[[1,2,3]]})", "{}", "3"),
           with(R"({"next":9,"open":[5]})", "{}", "3"),
           with(R"({"next":9,"open":5})", "{}", "3"),
           with(R"({"next":-9,"open":[]})", "{}", "3"),
           with(R"({"open":[]})", "{}", "3"),
           with(R"({"next":9})", "{}", "3"),
           with("5", "{}", "3"),
           with(R"({"next":9,"open":[]})", R"({"w":-1})", "3"),
           with(R"({"next":9,"open":[]})", R"({"w":"1"})", "3"),
           with(R"({"next":9,"open":[]})", "[]", "3"),
           with(R"({"next":9,"open":[]})", "{}", "-3"),
           with(R"({"next":9,"open":[]})", "{}", "18446744073709551615"),
           std::string("{}"),
           std::string("5"),
       }) {
    EXPECT_TRUE(absl::IsDataLoss(controller_state_from_text(text).status())) << text;
  }
}

}  // namespace
}  // namespace paceline::store
