// Files of predicted times: what they may say, and the one line for everything else.
#include "paceline/formats/config/predicted_times.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"

namespace paceline::config {
namespace {

using ::testing::ElementsAre;

TEST(PredictedTimes, ReadsNamesAndTimes) {
  const auto found = parse_predicted_times(
      "# two replicas\n"
      "w0:1.5,3,4.5\n"
      "\n"
      "  # the slow one\r\n"
      " slow one : 2.3 ,\t4.6,\r\n"
      "é\"x:-1,0,0,1e3",
      "times.txt");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->names, ElementsAre("w0", "slow one", "é\"x"));
  EXPECT_THAT(found->lists,
              ElementsAre(ElementsAre(1.5, 3, 4.5), ElementsAre(2.3, 4.6), ElementsAre(-1, 0, 0, 1000)));
}

TEST(PredictedTimes, AnIntegerIsExact) {
  EXPECT_THAT(parse_predicted_times("a:1553557741828,9007199254740991,9007199254740992", "f")->lists[0],
              ElementsAre(1553557741828.0, 9007199254740991.0, 9007199254740992.0));
}

struct Bad {
  const char* text;
  const char* says;
};

class BadTimes : public ::testing::TestWithParam<Bad> {};

TEST_P(BadTimes, AreOneLineThatSaysWhatToWrite) {
  const auto found = parse_predicted_times(GetParam().text, "times.txt");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(found.status().message(), GetParam().says);
}

constexpr char kNotANumber[] =
    "times.txt:1: the time in place 1 is not a number; write an integer or a decimal such as 4.5";
constexpr char kTooLarge[] =
    "times.txt:1: the time in place 1 is too large or too small; write times from -9007199254740992 to "
    "9007199254740992";
constexpr char kNoList[] = "times.txt: no list in it; write lines such as w0:1.5,3,4.5";

INSTANTIATE_TEST_SUITE_P(
    Texts, BadTimes,
    ::testing::Values(
        Bad{"", kNoList}, Bad{"\n # a:1\n\n", kNoList},
        Bad{"a:1\n\nb 2,3\n", "times.txt:3: no ':' after the name; write NAME:TIME,TIME,…"},
        Bad{"a:1\n :2\n", "times.txt:2: no name before the ':'; write NAME:TIME,TIME,…"},
        Bad{"a:1\nb: \n", "times.txt:2: no time after the ':'; write NAME:TIME,TIME,…"},
        Bad{"a:1\nb:2\na :3\n",
            "times.txt:3: this name is taken by a line before; give each list a name of its own"},
        Bad{"a:1,2,1.9", "times.txt:1: the time in place 3 is less than the one before; sort the times"},
        Bad{"a:1,,2",
            "times.txt:1: the time in place 2 is not a number; write an integer or a decimal such as 4.5"},
        Bad{"a:,", kNotANumber}, Bad{"a:1:2", kNotANumber}, Bad{"a:x", kNotANumber}, Bad{"a:1x", kNotANumber},
        Bad{"a:1 2", kNotANumber}, Bad{"a:1e", kNotANumber}, Bad{"a:0x10", kNotANumber},
        Bad{"a:+1", kNotANumber}, Bad{"a:nan", kNotANumber}, Bad{"a:-nan(7)", kNotANumber},
        Bad{"a:inf", kTooLarge}, Bad{"a:-inf", kTooLarge}, Bad{"a:1e999", kTooLarge},
        Bad{"a:1e-999", kTooLarge}, Bad{"a:9007199254740994", kTooLarge}, Bad{"a:-9.1e15", kTooLarge}));

TEST(PredictedTimes, LimitsWhatAFileMayTake) {
  const std::string name(kMostNameBytes, 'n');
  EXPECT_TRUE(parse_predicted_times(name + ":1", "f").ok());
  EXPECT_EQ(parse_predicted_times(name + "n:1", "f").status().message(),
            "f:1: a name of more than 100 bytes; shorten it");
  const std::string huge(static_cast<std::size_t>(kMostTimesBytes) + 1, '\n');
  EXPECT_EQ(parse_predicted_times(huge, "f").status().message(), "f: longer than 33554432 bytes; split it");
  if (effort::kSanitized) return;  // a million lists take long
  std::string many;
  for (std::size_t i = 0; i <= kMostLists; ++i) many += fmt::format("{}:1\n", i);
  EXPECT_EQ(parse_predicted_times(many, "f").status().message(),
            "f:1000001: more than 1000000 lists; split the file");
}

}  // namespace
}  // namespace paceline::config
