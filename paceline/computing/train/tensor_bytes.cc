#include "paceline/computing/train/tensor_bytes.h"

#include <cstring>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <torch/types.h>

#include "paceline/base/check.h"
#include "paceline/computing/train/catch_torch.h"

namespace paceline::train {

std::int64_t tensor_bytes(const std::vector<std::int64_t>& sample_shape, std::int64_t samples) {
  return std::accumulate(sample_shape.begin(), sample_shape.end(), samples, std::multiplies<>()) *
         static_cast<std::int64_t>(sizeof(float));
}

absl::StatusOr<std::size_t> write_tensor(const torch::Tensor& tensor, std::span<std::byte> room) {
  return catch_torch("sending a tensor", [&]() -> absl::StatusOr<std::size_t> {
    PACELINE_CHECK(tensor.scalar_type() == torch::kFloat32, "a tensor of another type than float32");
    const std::size_t bytes = tensor.nbytes();
    if (bytes > room.size()) {
      return absl::InvalidArgumentError(
          fmt::format("a tensor of {} bytes in room for {}", bytes, room.size()));
    }
    std::memcpy(room.data(), tensor.contiguous().data_ptr<float>(), bytes);
    return bytes;
  });
}

absl::StatusOr<torch::Tensor> read_tensor(std::span<const std::byte> bytes,
                                          const std::vector<std::int64_t>& sample_shape,
                                          std::int64_t samples) {
  return catch_torch("receiving a tensor", [&]() -> absl::StatusOr<torch::Tensor> {
    if (static_cast<std::int64_t>(bytes.size()) != tensor_bytes(sample_shape, samples)) {
      return absl::DataLossError(fmt::format("a stage sent {} bytes, and {} samples have {}", bytes.size(),
                                             samples, tensor_bytes(sample_shape, samples)));
    }
    std::vector<std::int64_t> shape = sample_shape;
    shape.insert(shape.begin(), samples);
    torch::Tensor tensor = torch::empty(shape, torch::kFloat32);
    std::memcpy(tensor.data_ptr<float>(), bytes.data(), bytes.size());
    return tensor;
  });
}

}  // namespace paceline::train
