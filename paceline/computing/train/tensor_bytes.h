// Tensors as the bytes that stages hand to each other: float32, in the order of the elements, nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>
#include <torch/types.h>

namespace paceline::train {

// The bytes of `samples` samples of this shape.
std::int64_t tensor_bytes(const std::vector<std::int64_t>& sample_shape, std::int64_t samples);

// Returns the number of bytes written. Errors: InvalidArgument when there is too little room.
absl::StatusOr<std::size_t> write_tensor(const torch::Tensor& tensor, std::span<std::byte> room);

// Returns a tensor with its own memory. Errors: DataLoss when there are more or fewer bytes.
absl::StatusOr<torch::Tensor> read_tensor(std::span<const std::byte> bytes,
                                          const std::vector<std::int64_t>& sample_shape,
                                          std::int64_t samples);

}  // namespace paceline::train
