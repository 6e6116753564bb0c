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

TEST(Printable, HasNoCommandsOfTerminals) {
  EXPECT_EQ(printable("\x1b]0;title\x07"), "?]0;title?");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "31mb"),
            "a??31mb");
  EXPECT_EQ(printable("a\x9b"
                      "31mb"),
            "a?31mb")
      << "broken UTF-8, which some terminals obey";
  EXPECT_EQ(printable("größe …"), "größe …");
}

TEST(Printable, IsCutAtAColumnAndNotWithinACharacter) {
  EXPECT_EQ(fitting("größe", 3), "grö");
  EXPECT_EQ(fitting("größe", 5), "größe");
  EXPECT_EQ(fitting("größe", 9), "größe");
  EXPECT_EQ(fitting("größe", 0), "");
}

TEST(Printable, LinesStayLines) {
  EXPECT_EQ(printable_lines(""), "");
  EXPECT_EQ(printable_lines("a\x1b\n\nb\n"), "a?\n\nb\n");
  EXPECT_EQ(printable_lines(std::string(1000, 'x')).size(), 1000u);
}

}  // namespace
}  // namespace paceline
