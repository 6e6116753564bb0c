#include "paceline/records/store/strict_json.h"

#include <gtest/gtest.h>

namespace paceline::store {
namespace {

TEST(StrictJson, ReadsWhatIsJson) {
  const auto document = parse_strict_json(R"({"a": [1, -2, 3.5, true, null, "x"], "b": {}})", 3);
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->dump(), R"({"a":[1,-2,3.5,true,null,"x"],"b":{}})");
}

TEST(StrictJson, RefusesWhatIsNot) {
  for (const char* text :
       {"", "{", "}", "[1,]", "{\"a\"}", "{} {}", "\x01", "\"\xff\"", "{\"a\":1,\"a\":2}", "nul"}) {
    const auto document = parse_strict_json(text, 3);
    EXPECT_FALSE(document.ok()) << text;
    EXPECT_FALSE(document.status().message().empty()) << text;
  }
}

TEST(StrictJson, ADeepNestIsRefusedAtOnce) {
  EXPECT_TRUE(parse_strict_json("[[[]]]", 3).ok());
  EXPECT_FALSE(parse_strict_json("[[[[]]]]", 3).ok());
  EXPECT_FALSE(parse_strict_json(std::string(10'000'000, '['), 3).ok());
}

TEST(StrictJson, WholeNumbersFit63Bits) {
  EXPECT_EQ(*whole_number(*parse_strict_json("9223372036854775807", 1), "n"), 9223372036854775807);
  for (const char* text : {"9223372036854775808", "18446744073709551615", "99999999999999999999", "-1", "1.0",
                           "\"1\"", "1e3", "true", "null", "[]"}) {
    EXPECT_FALSE(whole_number(*parse_strict_json(text, 1), "n").ok()) << text;
  }
}

TEST(StrictJson, AMissingKeyIsNamed) {
  EXPECT_EQ(member_of({{"a", 1}}, "b").status().message(), "'b' is missing");
  EXPECT_FALSE(member_of(5, "b").ok());
}

}  // namespace
}  // namespace paceline::store
