// Tensors in one safetensors file (https://github.com/huggingface/safetensors), which every tool that knows
// the format reads. Any thread.
//
// Invariant: a file is whole or not there. It carries a CRC-32 of its data and its header, so that a file
// whose bytes changed is an error and never other weights. Files of other programs carry none and are read as
// well.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/parameters/ps/layout.h"
#include "paceline/records/store/files.h"

namespace paceline::store {

// A tensor in the caller's memory.
struct TensorView {
  std::string name;
  std::vector<std::int64_t> shape;
  const float* data = nullptr;  // the bytes of as many elements as the product of the shape
  ps::Dtype dtype = ps::Dtype::kFloat32;
};

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> data;  // the tensor's bytes, the last float filled up with zeros
  ps::Dtype dtype = ps::Dtype::kFloat32;
};

struct SafetensorsFile {
  std::vector<Tensor> tensors;                  // in the order of the file
  std::map<std::string, std::string> metadata;  // without the checksum
};

// Streams the tensors into the file without copying them, and commits it. Errors: InvalidArgument for a name
// that occurs twice or is not UTF-8; the sink's.
absl::Status write_safetensors(FileSink& file, std::span<const TensorView> tensors,
                               const std::map<std::string, std::string>& metadata);
// The same, into a file on this host. Errors: also ResourceExhausted if the disk is full.
absl::Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                               const std::map<std::string, std::string>& metadata);

// Errors: DataLoss if the file is truncated or damaged; Unimplemented if it has a type that base/dtype.h does
// not have; FailedPrecondition if another version of Paceline wrote it, in another format.
absl::StatusOr<SafetensorsFile> read_safetensors(const std::filesystem::path& path);

using TakeTensor = std::function<void(Tensor)>;
// Reads the tensors one after the other, in the order of the file, so that one at a time is in memory. After an error
// they may be damaged. Errors: the same.
absl::Status each_tensor(const std::filesystem::path& path, const TakeTensor& take);

// Checks that the whole file is undamaged, without keeping it. Errors: the same.
absl::Status check_safetensors(const std::filesystem::path& path);

}  // namespace paceline::store
