#include <string>

#include <gtest/gtest.h>

#include "paceline/computing/program/messages.h"

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

}  // namespace
}  // namespace paceline::program
