#include "paceline/records/store/safetensors.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/crc32.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/safetensors_header.h"

namespace paceline::store {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and so are its writers");

namespace {

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kBlockBytes = 1 << 20;
constexpr std::int64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr std::size_t kHeaderMultiple = 8;        // makes the data aligned in a mapped file
constexpr const char* kChecksumKey = "paceline_crc32";
// A flipped bit could change the name of a single key, and then nothing would be checked.
constexpr const char* kFormatKey = "paceline_format";
constexpr const char* kSafetensorsFormat = "1";

using Crc = std::uint32_t;

// The CRC-32 of the header without its checksum; the data's bytes continue it.
absl::StatusOr<Crc> crc_of_header(SafetensorsHeader header) {
  header.metadata.erase(kChecksumKey);
  PACELINE_ASSIGN_OR_RETURN(const std::string text, to_text(header));
  return crc32_after(text.data(), text.size(), 0);
}

std::size_t tensor_bytes(const TensorEntry& entry) {
  return static_cast<std::size_t>(entry.end - entry.begin);
}

absl::Status with_path(const fs::path& path, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", path.string(), std::string(status.message())));
}

// Errors of reading name the path already; only errors about the content get it here.
absl::Status of_content(const fs::path& path, const absl::Status& status) {
  const bool content =
      absl::IsDataLoss(status) || absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status);
  return content ? with_path(path, status) : status;
}

absl::StatusOr<SafetensorsHeader> lay_out(std::span<const TensorView> tensors,
                                          const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header{{}, metadata};
  header.metadata[kFormatKey] = kSafetensorsFormat;
  std::set<std::string> names{"__metadata__"};
  std::int64_t end = 0;
  for (const TensorView& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          fmt::format("the tensor name '{}' is taken; rename one", tensor.name));
    }
    std::int64_t bytes = ps::bytes_of(tensor.dtype);
    for (std::int64_t extent : tensor.shape) bytes *= extent;
    header.tensors.push_back({tensor.name, tensor.shape, end, end + bytes, tensor.dtype});
    end += bytes;
  }
  return header;
}

absl::StatusOr<std::string> checked_text(SafetensorsHeader& header, std::span<const TensorView> tensors) {
  PACELINE_ASSIGN_OR_RETURN(Crc crc, crc_of_header(header));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    crc = crc32_after(tensors[i].data, tensor_bytes(header.tensors[i]), crc);
  }
  header.metadata[kChecksumKey] = fmt::format("{:08x}", crc);
  PACELINE_ASSIGN_OR_RETURN(std::string text, to_text(header));
  text.resize((text.size() + kHeaderMultiple - 1) / kHeaderMultiple * kHeaderMultiple, ' ');
  return text;
}

absl::Status write_file(FileSink& file, const std::string& text, const SafetensorsHeader& header,
                        std::span<const TensorView> tensors) {
  const std::uint64_t length = text.size();
  PACELINE_RETURN_IF_ERROR(file.write(&length, sizeof length));
  PACELINE_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(file.write(tensors[i].data, tensor_bytes(header.tensors[i])));
  }
  return file.commit();
}

absl::Status truncated(std::int64_t there, std::int64_t needed) {
  return absl::DataLossError(fmt::format("truncated: {} of {} bytes are there", there, needed));
}

struct OpenFile {
  fs::path path;
  FileDescriptor file;
  std::int64_t size = 0;
  std::int64_t data_offset = 0;
};

absl::Status read_exactly(const OpenFile& in, std::int64_t offset, void* bytes, std::size_t count) {
  PACELINE_ASSIGN_OR_RETURN(const std::size_t got, read_at(in.file, in.path, offset, bytes, count));
  const auto there = offset + static_cast<std::int64_t>(got);
  return got == count ? absl::OkStatus() : truncated(there, offset + static_cast<std::int64_t>(count));
}

absl::StatusOr<SafetensorsHeader> read_header(OpenFile& in) {
  std::uint64_t length = 0;
  if (in.size < kLengthBytes) return truncated(in.size, kLengthBytes);
  PACELINE_RETURN_IF_ERROR(read_exactly(in, 0, &length, sizeof length));
  if (length > static_cast<std::uint64_t>(kMaxHeader)) {
    return absl::DataLossError("not a safetensors file, or its first bytes are damaged");
  }
  in.data_offset = kLengthBytes + static_cast<std::int64_t>(length);
  if (in.data_offset > in.size) return truncated(in.size, in.data_offset);
  std::string text(length, '\0');
  PACELINE_RETURN_IF_ERROR(read_exactly(in, kLengthBytes, text.data(), text.size()));
  PACELINE_ASSIGN_OR_RETURN(SafetensorsHeader header, parse_header(text));
  const std::int64_t data = header.tensors.empty() ? 0 : header.tensors.back().end;
  const std::int64_t there = in.size - in.data_offset;
  if (there < data)
    return absl::DataLossError(fmt::format("truncated: {} of {} bytes of data are there", there, data));
  if (there > data) return absl::DataLossError(fmt::format("damaged: {} bytes too many", there - data));
  return header;
}

// A file of another program has neither key, and nothing to check.
absl::Status check_crc(const SafetensorsHeader& header, Crc crc) {
  const auto mark = header.metadata.find(kFormatKey);
  const auto sum = header.metadata.find(kChecksumKey);
  if (mark == header.metadata.end() && sum == header.metadata.end()) return absl::OkStatus();
  if (mark == header.metadata.end() || sum == header.metadata.end()) {
    return absl::DataLossError("damaged: its checksum is missing");
  }
  const std::string found = fmt::format("{:08x}", crc);
  if (found != sum->second)
    return absl::DataLossError(fmt::format("damaged (checksum {} is not the one written in it)", found));
  if (mark->second != kSafetensorsFormat)
    return absl::FailedPreconditionError("written by another version of Paceline; use that one");
  return absl::OkStatus();
}

// The tensors are contiguous, from the header to the end.
absl::Status check_bytes(OpenFile& in) {
  PACELINE_ASSIGN_OR_RETURN(const SafetensorsHeader header, read_header(in));
  PACELINE_ASSIGN_OR_RETURN(Crc crc, crc_of_header(header));
  std::vector<char> block(static_cast<std::size_t>(std::min(in.size - in.data_offset, kBlockBytes)));
  for (std::int64_t at = in.data_offset; at < in.size;) {
    const std::size_t count = static_cast<std::size_t>(std::min<std::int64_t>(in.size - at, kBlockBytes));
    PACELINE_RETURN_IF_ERROR(read_exactly(in, at, block.data(), count));
    crc = crc32_after(block.data(), count, crc);
    at += static_cast<std::int64_t>(count);
  }
  return check_crc(header, crc);
}

// Returns the metadata.
absl::StatusOr<std::map<std::string, std::string>> read_tensors(OpenFile& in, const TakeTensor& take) {
  PACELINE_ASSIGN_OR_RETURN(SafetensorsHeader header, read_header(in));
  PACELINE_ASSIGN_OR_RETURN(Crc crc, crc_of_header(header));
  for (const TensorEntry& entry : header.tensors) {
    std::vector<float> data((tensor_bytes(entry) + sizeof(float) - 1) / sizeof(float));
    PACELINE_RETURN_IF_ERROR(
        read_exactly(in, in.data_offset + entry.begin, data.data(), tensor_bytes(entry)));
    crc = crc32_after(data.data(), tensor_bytes(entry), crc);
    take({entry.name, entry.shape, std::move(data), entry.dtype});
  }
  PACELINE_RETURN_IF_ERROR(check_crc(header, crc));
  header.metadata.erase(kFormatKey);
  header.metadata.erase(kChecksumKey);
  return std::move(header.metadata);
}

}  // namespace

absl::Status write_safetensors(FileSink& file, std::span<const TensorView> tensors,
                               const std::map<std::string, std::string>& metadata) {
  PACELINE_ASSIGN_OR_RETURN(SafetensorsHeader header, lay_out(tensors, metadata));
  PACELINE_ASSIGN_OR_RETURN(const std::string text, checked_text(header, tensors));
  return write_file(file, text, header, tensors);
}

absl::Status write_safetensors(const fs::path& path, std::span<const TensorView> tensors,
                               const std::map<std::string, std::string>& metadata) {
  PACELINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  const absl::Status status = write_safetensors(file, tensors, metadata);
  // Errors of writing name the path already.
  return absl::IsInvalidArgument(status) ? with_path(path, status) : status;
}

absl::StatusOr<SafetensorsFile> read_safetensors(const fs::path& path) {
  OpenFile in{path, FileDescriptor(), 0, 0};
  PACELINE_ASSIGN_OR_RETURN(in.file, open_to_read(path, in.size));
  SafetensorsFile file;
  auto metadata = read_tensors(in, [&](Tensor tensor) { file.tensors.push_back(std::move(tensor)); });
  if (!metadata.ok()) return of_content(path, metadata.status());
  file.metadata = *std::move(metadata);
  return file;
}

absl::Status each_tensor(const fs::path& path, const TakeTensor& take) {
  OpenFile in{path, FileDescriptor(), 0, 0};
  PACELINE_ASSIGN_OR_RETURN(in.file, open_to_read(path, in.size));
  return of_content(path, read_tensors(in, take).status());
}

absl::Status check_safetensors(const fs::path& path) {
  OpenFile in{path, FileDescriptor(), 0, 0};
  PACELINE_ASSIGN_OR_RETURN(in.file, open_to_read(path, in.size));
  return of_content(path, check_bytes(in));
}

}  // namespace paceline::store
