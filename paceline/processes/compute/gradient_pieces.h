// A device's part of its replica's gradient as messages to the first device, if the device does not write it
// there itself. Each message has a piece and its place, and an empty one ends them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/status.h>

#include "paceline/parameters/ps/float_range.h"
#include "paceline/transport/channels/channel.h"

namespace paceline::compute {

// Sizes of the channel that the first device creates, for gradients of so many floats in all.
channels::ChannelSizes gradient_channel(std::int64_t floats);

// The ranges, cut so that each fits a message.
std::vector<ps::FloatRange> pieces_of(std::span<const ps::FloatRange> ranges);

// The number of bytes written. Requires: a piece, and room for one.
std::size_t write_piece(const ps::FloatRange& piece, std::span<const float> gradient,
                        std::span<std::byte> room);
// Writes it to its place, or adds it there. Errors: DataLoss if the place is not in this gradient.
enum class Piece { kPut, kAdd };
absl::Status read_piece(std::span<const std::byte> message, Piece how, std::span<float> gradient);

}  // namespace paceline::compute
