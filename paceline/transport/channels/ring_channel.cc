#include "paceline/transport/channels/ring_channel.h"

#include <atomic>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/transport/ipc/futex.h"

namespace paceline::channels {

namespace {

constexpr std::uint64_t kChannelMagic = 0x316e6863656c6370;  // "pclechn1"

std::size_t bytes_of(const ChannelSize& size) {
  return ipc::whole_pages(static_cast<std::size_t>(size.slots) * slot_stride(size));
}

// Waits until the word is no longer `seen`.
bool changed(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (word.load(std::memory_order_acquire) == seen) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return false;
    ipc::futex_wait(word, seen, left);
  }
  return true;
}

}  // namespace

// Counts of messages; they differ by at most the number of slots.
struct RingChannel::Way {
  alignas(kCacheLine) std::atomic<std::uint32_t> sent;
  alignas(kCacheLine) std::atomic<std::uint32_t> released;
  std::uint64_t bytes[kMostSlots];  // the size of the message in each slot
};

struct RingChannel::Header {
  std::uint64_t magic;
  ChannelSize from_creator;
  ChannelSize from_opener;
  Way creators;
  Way openers;
};

std::byte* RingChannel::Lane::slot() const {
  return slots + count % static_cast<std::uint32_t>(size.slots) * slot_stride(size);
}

RingChannel::RingChannel(ipc::SharedMemory memory, ipc::Mapping mapping, const ChannelSizes& sizes,
                         bool creator)
    : memory_(std::move(memory)), mapping_(std::move(mapping)) {
  auto* header = reinterpret_cast<Header*>(mapping_.data());
  std::byte* slots = mapping_.data() + ipc::kPageBytes;
  out_ = {&header->creators, slots, sizes.from_creator};
  in_ = {&header->openers, slots + bytes_of(sizes.from_creator), sizes.from_opener};
  if (!creator) std::swap(out_, in_);
}

absl::StatusOr<RingChannel> RingChannel::create(const ChannelSizes& sizes) {
  static_assert(sizeof(Header) <= ipc::kPageBytes);
  PACELINE_CHECK(sane(sizes.from_creator) && sane(sizes.from_opener), "a channel of {} and {} slots",
                 sizes.from_creator.slots, sizes.from_opener.slots);
  const std::size_t bytes = ipc::kPageBytes + bytes_of(sizes.from_creator) + bytes_of(sizes.from_opener);
  PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory memory, ipc::SharedMemory::create("paceline-channel", bytes));
  PACELINE_ASSIGN_OR_RETURN(ipc::Mapping mapping, memory.map(0, bytes, true));
  auto* header = new (mapping.data()) Header{};
  header->magic = kChannelMagic;
  header->from_creator = sizes.from_creator;
  header->from_opener = sizes.from_opener;
  return RingChannel(std::move(memory), std::move(mapping), sizes, true);
}

absl::StatusOr<RingChannel> RingChannel::open(const std::string& path, const ChannelSizes& sizes) {
  PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory memory, ipc::SharedMemory::open(path));
  const std::size_t bytes = ipc::kPageBytes + bytes_of(sizes.from_creator) + bytes_of(sizes.from_opener);
  PACELINE_ASSIGN_OR_RETURN(ipc::Mapping mapping, memory.map(0, bytes, true));
  const auto* header = reinterpret_cast<const Header*>(mapping.data());
  if (header->magic != kChannelMagic || header->from_creator != sizes.from_creator ||
      header->from_opener != sizes.from_opener) {
    return absl::InvalidArgumentError(fmt::format("{} is not a channel for messages of {} and {} bytes", path,
                                                  sizes.from_creator.slot_bytes,
                                                  sizes.from_opener.slot_bytes));
  }
  return RingChannel(std::move(memory), std::move(mapping), sizes, false);
}

absl::StatusOr<std::optional<std::span<std::byte>>> RingChannel::room(std::chrono::nanoseconds timeout) {
  // The ring is full while the receiver has released exactly this many messages.
  const std::uint32_t full = out_.count - static_cast<std::uint32_t>(out_.size.slots);
  if (!changed(out_.way->released, full, timeout)) return std::nullopt;
  return std::span(out_.slot(), static_cast<std::size_t>(out_.size.slot_bytes));
}

void RingChannel::send(std::size_t bytes) {
  PACELINE_CHECK(bytes <= static_cast<std::size_t>(out_.size.slot_bytes), "{} bytes in a slot of {}", bytes,
                 out_.size.slot_bytes);
  out_.way->bytes[out_.count % static_cast<std::uint32_t>(out_.size.slots)] = bytes;
  out_.way->sent.store(++out_.count, std::memory_order_release);
  ipc::futex_wake_all(out_.way->sent);
}

absl::StatusOr<std::optional<std::span<const std::byte>>> RingChannel::message(
    std::chrono::nanoseconds timeout) {
  if (!changed(in_.way->sent, in_.count, timeout)) return std::nullopt;
  const std::uint64_t bytes = in_.way->bytes[in_.count % static_cast<std::uint32_t>(in_.size.slots)];
  if (bytes > static_cast<std::uint64_t>(in_.size.slot_bytes)) {
    return absl::DataLossError(
        fmt::format("a peer sent a message of {} bytes in room for {}", bytes, in_.size.slot_bytes));
  }
  return std::span<const std::byte>(in_.slot(), bytes);
}

void RingChannel::release() {
  in_.way->released.store(++in_.count, std::memory_order_release);
  ipc::futex_wake_all(in_.way->released);
}

}  // namespace paceline::channels
