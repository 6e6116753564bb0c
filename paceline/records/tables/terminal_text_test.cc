#include "paceline/records/tables/terminal_text.h"

#include <gtest/gtest.h>

namespace paceline::report {
namespace {

TEST(Words, ColumnsCountCodePoints) {
  EXPECT_EQ(columns("abc"), 3U);
  EXPECT_EQ(columns("█▌–"), 3U);
}

TEST(Words, PrintableKeepsTextAndDropsCommands) {
  EXPECT_EQ(printable("größe 机器 🚴"), "größe 机器 🚴");
  EXPECT_EQ(printable("\x1b[31mred\nline\x7f"), "?[31mred?line?");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "??31m")
      << "U+009B starts a command on some terminals";
  EXPECT_EQ(printable("\xff\xc3"), "??") << "broken and cut UTF-8";
  EXPECT_EQ(printable("a\xe2\x82"), "a??");
}

TEST(Words, Thousands) {}

TEST(Words, ShortNumbers) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(9.96), "10.0");
  EXPECT_EQ(short_number(713.4), "713");
  EXPECT_EQ(short_number(999.7), "1.0k");
  EXPECT_EQ(short_number(12'340), "12.3k");
  EXPECT_EQ(short_number(2.5e6), "2.5M");
}

TEST(Words, Rates) {
  EXPECT_EQ(rate_text(0.4213), "0.421");
  EXPECT_EQ(rate_text(713.4), "713");
  EXPECT_EQ(rate_text(12'345.6), "12,346");
}

TEST(Words, Durations) {
  EXPECT_EQ(short_duration(59.4), "59s");
  EXPECT_EQ(short_duration(59.6), "1m00s");
  EXPECT_EQ(short_duration(3725), "1h02m");
  EXPECT_EQ(short_duration(90'000), "1d01h");
  EXPECT_EQ(short_duration(-1), "?");
  EXPECT_EQ(short_duration(1e300), "?");
}

TEST(Words, Targets) {
  EXPECT_EQ(to_string(Target{"accuracy", 0.9}), "accuracy ≥ 90 %");
  EXPECT_EQ(to_string(Target{"loss", 1.25, true}), "loss ≤ 1.25");
  EXPECT_EQ(to_string(Target{"f1", 0.8}), "f1 ≥ 0.8");
}

TEST(TerminalText, AReplicaThatWorkedAtTheEndHasEnded) { EXPECT_EQ(to_string(Doing::kEnded), "ended"); }

}  // namespace
}  // namespace paceline::report
