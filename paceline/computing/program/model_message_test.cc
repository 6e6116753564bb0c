#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/computing/program/messages.h"
#include "paceline/computing/program/units.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::program {
namespace {

std::optional<engine::Engine::CardMemory> card_memory_said(const std::string& said) {
  const auto answer = parse_answer(
      R"({"type":"model","tensors":[{"name":"w","shape":[]}],"samples":1,"card_memory":)" + said + "}");
  EXPECT_TRUE(answer.ok()) << answer.status();
  return std::get<Model>(*answer).card_memory;
}

TEST(ModelMessage, SaysWhatItsCardHasFreeOrNothingThatCounts) {
  const auto said = card_memory_said(R"({"card":"GPU-7","free":25000000000})");
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->card, "GPU-7");
  EXPECT_EQ(said->free_bytes, 25'000'000'000);
  for (const char* wrong : {"7", "[]", "{}", R"({"free":7})", R"({"card":"a"})", R"({"card":7,"free":7})",
                            R"({"card":"a","free":0})", R"({"card":"a","free":-1})",
                            R"({"card":"a","free":1.5})", R"({"card":"a","free":9007199254740993})"})
    EXPECT_FALSE(card_memory_said(wrong).has_value()) << wrong;
}

// More workers and batches than a job may have ahead are a wish that is cut, not a setting that is refused.
TEST(ModelMessage, LoadsNoMoreBatchesAheadThanAJobMay) {
  const auto answer =
      parse_answer(R"({"type":"model","tensors":[{"name":"w","shape":[]}],"samples":1,"prefetch":4096})");
  ASSERT_TRUE(answer.ok()) << answer.status();
  const std::vector<std::string>& sets = std::get<Model>(*answer).sets;
  ASSERT_THAT(sets, testing::Contains("data.ahead=1000"));
  const auto job = config::parse_job("[program]\nrun = \"train.py\"\n[data]\nahead = 1000\n", "job.toml");
  EXPECT_TRUE(job.ok()) << job.status();
}

std::vector<planner::LayerProfile> layers_of(const std::string& first, const std::string& second) {
  const auto answer = parse_answer(
      R"({"type":"model","tensors":[{"name":"w","shape":[3]},{"name":"v","shape":[5]}],"samples":1,"units":[)"
      R"({"tensors":[0])" +
      first + R"(},{"tensors":[1])" + second + "}]}");
  EXPECT_TRUE(answer.ok()) << answer.status();
  return profile_of(std::get<Model>(*answer)).layers;
}

TEST(ModelMessage, NamesTheLibrariesThatFoundItsUnits) {
  const auto answer = parse_answer(
      R"({"type":"model","tensors":[{"name":"w","shape":[3]}],"samples":1,"units":[{"name":"a","tensors":[0]}],)"
      R"("libraries":"PyTorch 2.8.0\n"})");
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto cuts = cuts_of(std::get<Model>(*answer));
  ASSERT_TRUE(cuts.has_value());
  EXPECT_THAT(cuts->libraries, testing::StartsWith("PyTorch 2.8.0"));
  EXPECT_EQ(cuts->libraries.find('\n'), std::string::npos);
}

TEST(ModelMessage, CountsTheWeightsThatItsUnitsSayForAPlan) {
  const auto layers = layers_of(R"(,"parameter_bytes":50,"frozen_bytes":44,"tied_bytes":0,"tied_to":null)",
                                R"(,"parameter_bytes":10,"frozen_bytes":0,"tied_bytes":6,"tied_to":0)");
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].parameter_bytes, 50);
  EXPECT_EQ(layers[0].frozen_bytes, 44);
  EXPECT_EQ(layers[0].tied_bytes, 0);
  EXPECT_EQ(layers[1].parameter_bytes, 10);
  EXPECT_EQ(layers[1].tied_bytes, 6);
  EXPECT_EQ(layers[1].tied_to, 0);
}

TEST(ModelMessage, CountsFourBytesForEachNumberOfAUnitThatSaysNone) {
  const auto layers = layers_of("", "");
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].parameter_bytes, 12);
  EXPECT_EQ(layers[1].parameter_bytes, 20);
}

TEST(ModelMessage, WithWeightsThatCannotBeIsOneLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("parameter_bytes":-1)", "parameter_bytes cannot be"},
      {R"("parameter_bytes":4,"frozen_bytes":5)", "more frozen weights than weights"},
      {R"("parameter_bytes":4,"tied_bytes":5,"tied_to":0)", "tied to none before it"},
      {R"("parameter_bytes":4,"tied_bytes":5,"tied_to":null)", "tied_to cannot be"},
  };
  for (const auto& [weights, why] : cases) {
    const auto answer = parse_answer(
        R"({"type":"model","tensors":[{"name":"w","shape":[]}],"samples":1,"units":[{"tensors":[0],)" +
        weights + "}]}");
    EXPECT_THAT(answer.status().message(), testing::HasSubstr(why)) << weights;
  }
}

}  // namespace
}  // namespace paceline::program
