#include "paceline/records/store/safetensors.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/crc32.h"
#include "paceline/records/store/files.h"

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

// Gives `take` the parts of tensors in these bytes, which begin at byte `at` of the data. The tensors are contiguous.
void hand_out(const std::vector<TensorEntry>& tensors, std::int64_t at, std::span<const std::byte> bytes,
              const SafetensorsReader::Take& take) {
  const std::int64_t end = at + std::ssize(bytes);
  auto tensor = std::partition_point(tensors.begin(), tensors.end(),
                                     [at](const TensorEntry& one) { return one.end <= at; });
  for (; tensor != tensors.end() && tensor->begin < end; ++tensor) {
    const std::int64_t from = std::max(at, tensor->begin), to = std::min(end, tensor->end);
    if (from < to)
      take(static_cast<std::size_t>(tensor - tensors.begin()), from - tensor->begin,
           bytes.subspan(static_cast<std::size_t>(from - at), static_cast<std::size_t>(to - from)));
  }
}

// Room for its bytes.
std::size_t floats_of(const TensorEntry& entry) {
  return (tensor_bytes(entry) + sizeof(float) - 1) / sizeof(float);
}

// Gives the tensors one after the other.
absl::Status each_of(const SafetensorsReader& reader, const TakeTensor& take) {
  std::vector<float> data;
  std::size_t next = 0;  // the first tensor that was not given
  const auto give_until = [&](std::size_t end) {
    for (; next < end; ++next) {
      const TensorEntry& entry = reader.tensors()[next];
      data.resize(floats_of(entry));
      take({entry.name, entry.shape, std::exchange(data, {}), entry.dtype});
    }
  };
  PACELINE_RETURN_IF_ERROR(
      reader.read([&](std::size_t tensor, std::int64_t offset, std::span<const std::byte> bytes) {
        give_until(tensor);
        data.resize(floats_of(reader.tensors()[tensor]));
        std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(data.data()) + offset);
      }));
  give_until(reader.tensors().size());
  return absl::OkStatus();
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

absl::StatusOr<SafetensorsReader> SafetensorsReader::open(const fs::path& path) {
  SafetensorsReader made;
  made.path_ = path;
  PACELINE_ASSIGN_OR_RETURN(made.file_, open_to_read(path, made.size_));
  PACELINE_RETURN_IF_ERROR(of_content(path, made.read_header()));
  return made;
}

absl::Status SafetensorsReader::read(const Take& take) const { return of_content(path_, read_data(take)); }

absl::Status SafetensorsReader::read_exactly(std::int64_t offset, void* bytes, std::size_t count) const {
  PACELINE_ASSIGN_OR_RETURN(const std::size_t got, read_at(file_, path_, offset, bytes, count));
  const auto there = offset + static_cast<std::int64_t>(got);
  return got == count ? absl::OkStatus() : truncated(there, offset + static_cast<std::int64_t>(count));
}

absl::Status SafetensorsReader::read_header() {
  std::uint64_t length = 0;
  if (size_ < kLengthBytes) return truncated(size_, kLengthBytes);
  PACELINE_RETURN_IF_ERROR(read_exactly(0, &length, sizeof length));
  if (length > static_cast<std::uint64_t>(kMaxHeader))
    return absl::DataLossError("not a safetensors file, or its first bytes are damaged");
  data_offset_ = kLengthBytes + static_cast<std::int64_t>(length);
  if (data_offset_ > size_) return truncated(size_, data_offset_);
  std::string text(length, '\0');
  PACELINE_RETURN_IF_ERROR(read_exactly(kLengthBytes, text.data(), text.size()));
  PACELINE_ASSIGN_OR_RETURN(header_, parse_header(text));
  const std::int64_t data = header_.tensors.empty() ? 0 : header_.tensors.back().end;
  const std::int64_t there = size_ - data_offset_;
  if (there < data)
    return absl::DataLossError(fmt::format("truncated: {} of {} bytes of data are there", there, data));
  if (there > data) return absl::DataLossError(fmt::format("damaged: {} bytes too many", there - data));
  return absl::OkStatus();
}

absl::Status SafetensorsReader::read_data(const Take& take) const {
  PACELINE_ASSIGN_OR_RETURN(Crc crc, crc_of_header(header_));
  const std::int64_t end = size_ - data_offset_;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(end, kBlockBytes)));
  for (std::int64_t at = 0; at < end; at += std::ssize(block)) {
    block.resize(static_cast<std::size_t>(std::min(end - at, kBlockBytes)));
    PACELINE_RETURN_IF_ERROR(read_exactly(data_offset_ + at, block.data(), block.size()));
    crc = crc32_after(block.data(), block.size(), crc);
    hand_out(header_.tensors, at, block, take);
  }
  return check_crc(header_, crc);
}

absl::StatusOr<SafetensorsFile> read_safetensors(const fs::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::open(path));
  SafetensorsFile file;
  PACELINE_RETURN_IF_ERROR(
      each_of(reader, [&](Tensor tensor) { file.tensors.push_back(std::move(tensor)); }));
  file.metadata = reader.metadata();
  file.metadata.erase(kFormatKey);
  file.metadata.erase(kChecksumKey);
  return file;
}

absl::Status each_tensor(const fs::path& path, const TakeTensor& take) {
  PACELINE_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::open(path));
  return each_of(reader, take);
}

absl::Status check_safetensors(const fs::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::open(path));
  return reader.read([](std::size_t, std::int64_t, std::span<const std::byte>) {});
}

}  // namespace paceline::store
