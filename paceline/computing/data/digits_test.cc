#include "paceline/computing/data/digits.h"

#include <string>

#include <gtest/gtest.h>

#include "paceline/base/text_hash.h"

namespace paceline::data {
namespace {

std::uint64_t hash_of_the_first_hundred(DigitsHalf half) {
  std::string all;
  for (std::int32_t index = 0; index < 100; ++index) {
    const DrawnDigit drawn = draw_digit(half, index);
    all.append(drawn.pixels.begin(), drawn.pixels.end());
    all += static_cast<char>(drawn.label);
  }
  return text_hash(all);
}

// Changed pixels would be another data set: then kDigitsDrawing has to change too.
TEST(DrawnDigits, AreTheSameBytesEverywhere) {
  EXPECT_EQ(kDigitsDrawing, 20'260'101u);
  EXPECT_EQ(hash_of_the_first_hundred(DigitsHalf::kTrain), 0x365e7487558c38b4u);
  EXPECT_EQ(hash_of_the_first_hundred(DigitsHalf::kTest), 0x00f728467ffd10feu);
}

}  // namespace
}  // namespace paceline::data
