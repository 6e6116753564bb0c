#include "paceline/base/printable.h"

#include <string>

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Printable, IsOneShortLine) {
  EXPECT_EQ(printable("a\nb\x7f"), "a?b?");
  EXPECT_EQ(printable(std::string(1000, 'x')).size(), 103u);
  EXPECT_EQ(printable(std::string(1000, 'x'), 1000).size(), 1000u);
  EXPECT_EQ(printable("größe", 3), "gr...") << "no half of a character";
  EXPECT_EQ(printable("größe", 4), "grö...");
  EXPECT_EQ(printable("\x80\x80\x80", 2), "...");
}

}  // namespace
}  // namespace paceline
