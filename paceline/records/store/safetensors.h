// Tensors in one safetensors file (https://github.com/huggingface/safetensors), which every tool that knows
// the format reads. Any thread.
//
// Invariant: a file is whole or not there. It carries a CRC-32 of its data and its header, so that a file
// whose bytes changed is an error and never other weights. Files of other programs carry none and are read as
// well.
#pragma once

#include <cstddef>
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
#include "paceline/records/store/safetensors_header.h"

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

// A file that is read a piece at a time. Errors: DataLoss if it is truncated or damaged; Unimplemented if it has a type
// that base/dtype.h does not have; FailedPrecondition if another version of Paceline wrote it, in another format.
class SafetensorsReader {
 public:
  // Reads the header alone.
  static absl::StatusOr<SafetensorsReader> open(const std::filesystem::path& path);

  // In the order of the file.
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  // With the checksum.
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Some bytes of the tensor of that number, which lie `offset` bytes behind its first one.
  using Take = std::function<void(std::size_t tensor, std::int64_t offset, std::span<const std::byte> bytes)>;
  // Gives all bytes of the file, in its order. They are worth nothing if it ends with an error: the checksum is known
  // last.
  absl::Status read(const Take& take) const;

 private:
  SafetensorsReader() = default;
  absl::Status read_header();
  absl::Status read_data(const Take& take) const;
  absl::Status read_exactly(std::int64_t offset, void* bytes, std::size_t count) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t size_ = 0;
  std::int64_t data_offset_ = 0;
  SafetensorsHeader header_;
};

// Errors: those of SafetensorsReader.
absl::StatusOr<SafetensorsFile> read_safetensors(const std::filesystem::path& path);

using TakeTensor = std::function<void(Tensor)>;
// Reads the tensors one after the other, in the order of the file, so that one at a time is in memory. After an error
// they may be damaged. Errors: the same.
absl::Status each_tensor(const std::filesystem::path& path, const TakeTensor& take);

// Checks that the whole file is undamaged, without keeping it. Errors: the same.
absl::Status check_safetensors(const std::filesystem::path& path);

}  // namespace paceline::store
