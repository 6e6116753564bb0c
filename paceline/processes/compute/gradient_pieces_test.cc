// Gradients cut into messages and put together again, and messages that are none.
#include "paceline/processes/compute/gradient_pieces.h"

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

namespace paceline::compute {
namespace {

using ps::FloatRange;

TEST(GradientPieces, ComeTogetherAgainAndTouchNothingElse) {
  constexpr std::int64_t kFloats = 1'000'000;
  std::vector<float> gradient(kFloats);
  std::iota(gradient.begin(), gradient.end(), 1.0F);
  const std::vector<FloatRange> ranges{{16, 20}, {64, 600'000}, {999'999, kFloats}};
  const auto slot = static_cast<std::size_t>(gradient_channel(kFloats).from_opener.slot_bytes);
  std::vector<std::byte> room(slot);
  std::vector<float> whole(kFloats);
  for (const FloatRange& piece : pieces_of(ranges)) {
    const std::size_t bytes = write_piece(piece, gradient, room);
    ASSERT_TRUE(read_piece(std::span(room).first(bytes), Piece::kPut, whole).ok());
  }
  std::vector<float> expected(kFloats);
  for (const FloatRange& range : ranges)
    std::copy(gradient.begin() + range.begin, gradient.begin() + range.end, expected.begin() + range.begin);
  EXPECT_EQ(whole, expected);
}

TEST(GradientPieces, AreAddedToWhatIsThere) {
  const std::vector<float> part{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> sum{10, 20, 30, 40, 50, 60, 70, 80};
  alignas(64) std::byte room[64];
  const std::size_t bytes = write_piece({2, 5}, part, room);
  ASSERT_TRUE(read_piece(std::span(room, bytes), Piece::kAdd, sum).ok());
  EXPECT_EQ(sum, (std::vector<float>{10, 20, 33, 44, 55, 60, 70, 80}));
}

TEST(GradientPieces, OfASmallModelFitItsSlots) {
  const auto slot = static_cast<std::size_t>(gradient_channel(10).from_opener.slot_bytes);
  std::vector<std::byte> room(slot);
  const std::vector<float> gradient(10);
  EXPECT_EQ(write_piece({0, 10}, gradient, room), slot);
}

TEST(GradientPieces, ThatCannotBeAreRefused) {
  std::vector<float> whole(8);
  const auto of = [](std::int64_t begin, std::size_t bytes) {
    std::vector<std::byte> message(sizeof begin + bytes);
    std::memcpy(message.data(), &begin, sizeof begin);
    return message;
  };
  EXPECT_TRUE(read_piece(of(4, 16), Piece::kPut, whole).ok());
  EXPECT_TRUE(read_piece(of(8, 0), Piece::kAdd, whole).ok());
  for (const auto& message : {of(5, 16), of(-1, 4), of(9, 0), of(INT64_MAX, 4), of(INT64_MIN, 4), of(0, 3),
                              std::vector<std::byte>(7)})
    EXPECT_EQ(read_piece(message, Piece::kAdd, whole).code(), absl::StatusCode::kDataLoss) << message.size();
}

}  // namespace
}  // namespace paceline::compute
