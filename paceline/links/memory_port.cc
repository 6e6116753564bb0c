#include "paceline/links/memory_port.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/links/link_frames.h"

namespace paceline::links {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kMemoryChunk = 256 << 10;
// In a slot: how long the head is, the head, and from here on the data.
constexpr std::size_t kDataAt = 512;
constexpr channels::ChannelSize kSlots{8, kDataAt + kMemoryChunk};
constexpr channels::ChannelSizes kBoth{kSlots, kSlots};
static_assert(sizeof(std::uint64_t) + kMostHeadBytes <= kDataAt);
constexpr auto kAtOnce = nanoseconds::zero();

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryPort>> MemoryPort::create(FileDescriptor socket) {
  PACELINE_ASSIGN_OR_RETURN(channels::RingChannel channel, channels::RingChannel::create(kBoth));
  const std::string path = channel.path();
  if (::send(socket.get(), path.data(), path.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(path.size())) {
    return absl::UnavailableError(fmt::format("the peer is gone ({})", std::strerror(errno)));
  }
  std::unique_ptr<MemoryPort> port(new MemoryPort(std::move(socket), 0));
  port->channel_.emplace(std::move(channel));
  return port;
}

std::unique_ptr<MemoryPort> MemoryPort::await(FileDescriptor socket, pid_t peer) {
  return std::unique_ptr<MemoryPort>(new MemoryPort(std::move(socket), peer));
}

std::size_t MemoryPort::chunk_bytes(std::size_t left) const { return std::min(kMemoryChunk, left); }

void MemoryPort::post(std::span<const std::byte> head, std::span<const std::byte> data) {
  waiting_.push_back({head, data});
  while (!stopped_ && put_one()) {
  }
  ring();
}

// What it says of its channel has to be of its own process.
absl::Status MemoryPort::open_channel(const std::string& path) {
  const std::string own = fmt::format("/proc/{}/fd/", peer_);
  if (!path.starts_with(own) || path.find_first_not_of("0123456789", own.size()) != std::string::npos) {
    return absl::DataLossError("the peer names no channel of its own");
  }
  PACELINE_ASSIGN_OR_RETURN(channels::RingChannel channel, channels::RingChannel::open(path, kBoth));
  channel_.emplace(std::move(channel));
  return absl::OkStatus();
}

// Empties the socket.
void MemoryPort::listen() {
  std::array<char, 256> packet;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      peer_gone_ = true;
      return;
    }
    if (channel_) continue;
    const absl::Status opened = open_channel(std::string(packet.data(), static_cast<std::size_t>(got)));
    if (!opened.ok()) return lose(std::string(opened.message()));
  }
}

// The head is copied before it is looked at: the peer could change it meanwhile.
bool MemoryPort::take_one() {
  const auto message = channel_->message(kAtOnce);
  if (!message.ok()) {
    lose(std::string(message.status().message()));
    return false;
  }
  if (!*message) return false;
  const std::span<const std::byte> slot = **message;
  std::uint64_t head_bytes = 0;
  if (slot.size() < kDataAt) {
    lose("the peer sent something that is not a frame");
    return false;
  }
  std::memcpy(&head_bytes, slot.data(), sizeof head_bytes);
  if (head_bytes > kMostHeadBytes) {
    lose("the peer sent something that is not a frame");
    return false;
  }
  const std::span<const std::byte> in_slot = slot.subspan(sizeof head_bytes, head_bytes);
  const std::vector<std::byte> head(in_slot.begin(), in_slot.end());
  const std::span<const std::byte> data = slot.subspan(kDataAt);
  const absl::StatusOr<std::byte*> memory = sink_->frame_came(head, data.size());
  const std::uint64_t count = came_++;
  const bool lands = memory.ok() && !data.empty();
  if (lands) std::memcpy(*memory, data.data(), data.size());
  channel_->release();
  to_ring_ = true;
  if (lands) sink_->data_came(count);
  return memory.ok();
}

bool MemoryPort::put_one() {
  if (waiting_.empty() || !channel_) return false;
  const auto room = channel_->room(kAtOnce).value();  // in memory there always may be some
  if (!room) return false;
  const Waiting frame = waiting_.front();
  waiting_.pop_front();
  const std::uint64_t head_bytes = frame.head.size();
  std::memcpy(room->data(), &head_bytes, sizeof head_bytes);
  std::memcpy(room->data() + sizeof head_bytes, frame.head.data(), frame.head.size());
  if (!frame.data.empty()) std::memcpy(room->data() + kDataAt, frame.data.data(), frame.data.size());
  channel_->send(kDataAt + frame.data.size());
  to_ring_ = true;
  sink_->frame_sent(sent_++);
  return true;
}

// A full socket is full of bells already.
void MemoryPort::ring() {
  const char bell = 0;
  if (std::exchange(to_ring_, false)) ::send(socket_.get(), &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void MemoryPort::lose(const std::string& why) {
  if (!stopped_) sink_->peer_lost(why);
  stopped_ = true;
}

void MemoryPort::progress() {
  if (stopped_) return;
  listen();
  // What a peer sent before it went counts.
  bool moved = true;
  while (moved && channel_ && !stopped_) {
    moved = take_one();
    if (!stopped_) moved = put_one() || moved;
    ring();
  }
  if (peer_gone_ && !stopped_) lose("the peer is gone");
}

}  // namespace paceline::links
