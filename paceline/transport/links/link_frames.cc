#include "paceline/transport/links/link_frames.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::links {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kFrameMagic = 0x316b6e6c656c6370;  // "pclelnk1": also the version
constexpr std::size_t kHelloBytes = 8 + 8 + 8 + sizeof(LinkNonce);
constexpr std::uint64_t kSealedFlag = 1;

template <class T>
void set(std::span<std::byte> bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

absl::Status malformed(std::string_view what) {
  return absl::DataLossError(fmt::format("a frame is malformed: {}", what));
}

// Checks the header and data that a frame of its kind may have.
absl::Status check_parts(const FrameHead& head, std::size_t header_bytes, std::size_t data_bytes) {
  const bool hello = head.kind == FrameKind::kHello, offer = head.kind == FrameKind::kOffer;
  if (header_bytes > 0 && !hello && !offer) return malformed("a header where none belongs");
  const bool small = offer && head.bytes <= kInlineBytes;
  if (small && data_bytes != head.bytes) return malformed("a small payload of another size than it says");
  const bool chunk = head.kind == FrameKind::kChunk;
  if (chunk && (data_bytes == 0 || data_bytes > kMostChunkBytes)) {
    return malformed(fmt::format("a chunk of {} bytes", data_bytes));
  }
  if (!chunk && !small && data_bytes > 0) return malformed("data where none belong");
  return absl::OkStatus();
}

}  // namespace

std::vector<std::byte> write_head(const FrameHead& head, std::span<const std::byte> header, bool sealed) {
  PACELINE_CHECK(header.size() <= kMostHeaderBytes, "a header of {} bytes", header.size());
  const std::size_t untagged = kFixedHeadBytes + header.size();
  std::vector<std::byte> out(untagged + (has_tag(head.kind, sealed) ? kTagBytes : 0));
  set(out, 0, static_cast<std::uint32_t>(head.kind));
  set(out, 4, static_cast<std::uint32_t>(header.size()));
  set(out, 8, head.count);
  set(out, 16, head.message);
  set(out, 24, head.bytes);
  std::copy(header.begin(), header.end(), out.begin() + kFixedHeadBytes);
  return out;
}

absl::StatusOr<ReadHead> read_head(std::span<const std::byte> bytes, std::size_t data_bytes, bool sealed) {
  if (bytes.size() < kFixedHeadBytes) return malformed(fmt::format("a head of {} bytes", bytes.size()));
  const auto kind = get<std::uint32_t>(bytes, 0);
  const auto header_bytes = get<std::uint32_t>(bytes, 4);
  if (kind < static_cast<std::uint32_t>(FrameKind::kHello) ||
      kind > static_cast<std::uint32_t>(FrameKind::kHeartbeat)) {
    return malformed("of no known kind");
  }
  ReadHead read;
  read.head = {static_cast<FrameKind>(kind), get<std::uint64_t>(bytes, 8), get<std::uint64_t>(bytes, 16),
               get<std::uint64_t>(bytes, 24)};
  if (header_bytes > kMostHeaderBytes) return malformed(fmt::format("a header of {} bytes", header_bytes));
  const std::size_t untagged = kFixedHeadBytes + header_bytes;
  const std::size_t tag = has_tag(read.head.kind, sealed) ? kTagBytes : 0;
  if (bytes.size() != untagged + tag) return malformed("its head is not as long as it says");
  if (absl::Status status = check_parts(read.head, header_bytes, data_bytes); !status.ok()) return status;
  read.header = bytes.subspan(kFixedHeadBytes, header_bytes);
  read.authenticated = bytes.first(untagged);
  read.tag = bytes.subspan(untagged);
  return read;
}

std::vector<std::byte> write_hello(const Hello& hello) {
  const auto text = std::as_bytes(std::span(hello.text)).first(std::min(hello.text.size(), kMostHelloText));
  std::vector<std::byte> out(kHelloBytes + text.size());
  set(out, 0, kFrameMagic);
  set(out, 8, hello.sealed ? kSealedFlag : std::uint64_t{0});
  set(out, 16, hello.most_payload);
  set(out, 24, hello.nonce);
  std::copy(text.begin(), text.end(), out.begin() + kHelloBytes);
  return out;
}

absl::StatusOr<Hello> read_hello(std::span<const std::byte> header) {
  if (header.size() < kHelloBytes || header.size() > kHelloBytes + kMostHelloText ||
      get<std::uint64_t>(header, 0) != kFrameMagic || get<std::uint64_t>(header, 8) > kSealedFlag) {
    return absl::InvalidArgumentError("it does not say hello as this version of paceline does");
  }
  Hello hello;
  hello.sealed = get<std::uint64_t>(header, 8) == kSealedFlag;
  hello.most_payload = get<std::uint64_t>(header, 16);
  hello.nonce = get<LinkNonce>(header, 24);
  for (const std::byte byte : header.subspan(kHelloBytes)) {
    const char c = static_cast<char>(byte);
    hello.text += c >= ' ' && c <= '~' ? c : '?';
  }
  return hello;
}

}  // namespace paceline::links
