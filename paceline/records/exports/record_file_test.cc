#include "paceline/records/exports/record_file.h"

#include <gtest/gtest.h>

namespace paceline::exports {
namespace {

// RFC 3720, B.4.
TEST(RecordFile, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(RecordFile, FramesARecord) {
  const std::string text = framed("abc");
  ASSERT_EQ(text.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(text.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(text.substr(12, 3), "abc");
}

}  // namespace
}  // namespace paceline::exports
