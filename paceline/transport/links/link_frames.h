// The format of a link's frames on the wire. A frame is a head of at most 304 bytes, which is never encrypted
// but authenticated on a sealed link, and data:
//
//   kind u32 │ header bytes u32 │ count u64 │ message u64 │ bytes u64 │ header │ tag (16, if sealed)
//
//   hello    who the sender is and what it takes; header: see Hello. Never sealed, no data
//   ready    nothing else; the first sealed frame, so it proves the keys
//   offer    message `message` of `bytes` follows; header: its owner's. Data: the payload, if it is small
//   accept   memory for `message` is known: its chunks may come; its payload is taken, if it was small
//   chunk    data: the next part of `message`, from `bytes` on
//   beat     the sender is alive
//
// `count` numbers all frames of one direction, from 0. Numbers are little-endian. Everything here is read
// from bytes that a stranger may have sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::links {

inline constexpr std::size_t kMostHeaderBytes = 256;
inline constexpr std::size_t kTagBytes = 16;
inline constexpr std::size_t kFixedHeadBytes = 32;
inline constexpr std::size_t kMostHeadBytes = kFixedHeadBytes + kMostHeaderBytes + kTagBytes;
// Payloads of at most this size travel with their offer.
inline constexpr std::size_t kInlineBytes = 4096;
// The largest chunk that may come; those that are sent are smaller.
inline constexpr std::size_t kMostChunkBytes = 8 << 20;

enum class FrameKind : std::uint8_t { kHello = 1, kReady, kOffer, kAccept, kChunk, kHeartbeat };

struct FrameHead {
  FrameKind kind = FrameKind::kHeartbeat;
  std::uint64_t count = 0;
  std::uint64_t message = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const FrameHead&, const FrameHead&) = default;
};

// A head in memory; the spans point into it.
struct ReadHead {
  FrameHead head;
  std::span<const std::byte> header;
  std::span<const std::byte> authenticated;  // all but the tag
  std::span<const std::byte> tag;            // kTagBytes, or none
};

// True if frames of this kind carry a tag on a link of this sort.
inline bool has_tag(FrameKind kind, bool sealed) { return sealed && kind != FrameKind::kHello; }

// A head with room for its tag. Requires: at most kMostHeaderBytes of header.
std::vector<std::byte> write_head(const FrameHead& head, std::span<const std::byte> header, bool sealed);
// Reads the head of a frame with `data_bytes` of data. Errors: DataLoss if no frame of this kind looks like
// that.
absl::StatusOr<ReadHead> read_head(std::span<const std::byte> bytes, std::size_t data_bytes, bool sealed);

using LinkNonce = std::array<std::byte, 16>;

struct Hello {
  bool sealed = false;
  std::uint64_t most_payload = 0;  // the largest payload that the sender takes, in bytes
  LinkNonce nonce{};               // random
  std::string text;  // the connecting end's name; the listening end's reason to refuse, or empty
  friend bool operator==(const Hello&, const Hello&) = default;
};

inline constexpr std::size_t kMostHelloText = 200;

// The header of a hello; text that is too long is cut.
std::vector<std::byte> write_hello(const Hello& hello);
// Errors: InvalidArgument if it is no hello of this version. Text comes back printable.
absl::StatusOr<Hello> read_hello(std::span<const std::byte> header);

}  // namespace paceline::links
