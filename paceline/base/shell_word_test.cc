#include "paceline/base/shell_word.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(ShellWord, IsInQuotesUnlessItIsPlain) {
  EXPECT_EQ(shell_word("/home/me/runs/train-20260101T120000.042Z-bsp"),
            "/home/me/runs/train-20260101T120000.042Z-bsp");
  EXPECT_EQ(shell_word("/content/drive/My Drive/runs"), "'/content/drive/My Drive/runs'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("~/runs"), "'~/runs'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word("a\nb"), "'a\nb'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace paceline
