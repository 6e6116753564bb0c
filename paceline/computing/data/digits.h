// Digits that a seeded generator draws: images to train on without any files. 60,000 to train on and 10,000
// to test with, 28 x 28 pixels like MNIST's, but made by this code alone, and so under the project's licence.
//
// A digit is a few strokes. Their points are jittered, then scaled, sheared and shifted; some images get
// strokes that belong to nothing, and all get noise. Everything is computed in whole numbers, so every
// machine draws the same bytes.
#pragma once

#include <array>
#include <cstdint>

namespace paceline::data {

inline constexpr int kDigitSide = 28;
inline constexpr std::int32_t kDigitsToTrain = 60'000;
inline constexpr std::int32_t kDigitsToTest = 10'000;
// Another number: other digits. It names the set.
inline constexpr std::uint64_t kDigitsDrawing = 20'260'101;

enum class DigitsHalf { kTrain, kTest };

struct DrawnDigit {
  using Pixels = std::array<std::uint8_t, kDigitSide * kDigitSide>;
  Pixels pixels{};         // row by row; 0 is the background, but for the noise
  std::uint8_t label = 0;  // 0 to 9
};

// A function of its arguments. Takes about 20 µs.
DrawnDigit draw_digit(DigitsHalf half, std::int32_t index);

}  // namespace paceline::data
