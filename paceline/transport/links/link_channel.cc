#include "paceline/transport/links/link_channel.h"

#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::links {

namespace {

// The header of a link's message, one byte: a message of the channel, or the notice that one was released.
constexpr std::array kMessage{std::byte{1}};
constexpr std::array kReleased{std::byte{2}};

bool is(const Link::Message& message, const std::array<std::byte, 1>& kind) {
  return message.header.size() == kind.size() && message.header.front() == kind.front();
}

// The first cache line. The memory is `kCacheLine` bytes longer than what is used of it.
std::byte* line_in(std::byte* memory) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  return memory + ((at + channels::kCacheLine - 1) / channels::kCacheLine * channels::kCacheLine - at);
}

}  // namespace

LinkEnd::Slots::Slots(const channels::ChannelSize& size)
    : slot_bytes(static_cast<std::size_t>(size.slot_bytes)),
      stride(channels::slot_stride(size)),
      memory(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(size.slots) * stride +
                                                         channels::kCacheLine)),
      first(line_in(memory.get())),
      bytes(static_cast<std::size_t>(size.slots)),
      busy(static_cast<std::size_t>(size.slots)) {}

std::span<std::byte> LinkEnd::Slots::at(std::uint64_t count) {
  return {first + index(count) * stride, slot_bytes};
}

LinkEnd::LinkEnd(const channels::ChannelSize& out, const channels::ChannelSize& in) : out_(out), in_(in) {
  PACELINE_CHECK(channels::sane(out) && channels::sane(in), "a channel of {} and {} slots", out.slots,
                 in.slots);
}

// ---- The owner's

bool LinkEnd::has_room() const {
  return out_.begun - out_.released < out_.bytes.size() && !out_.busy[out_.index(out_.begun)];
}

bool LinkEnd::has_message() const { return in_.released < in_.begun && !in_.busy[in_.index(in_.released)]; }

absl::StatusOr<bool> LinkEnd::wait(std::chrono::nanoseconds timeout, const std::function<bool()>& what) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return what() || !ended_.ok(); });
  if (what()) return true;
  PACELINE_RETURN_IF_ERROR(ended_);
  return false;
}

absl::StatusOr<std::optional<std::span<std::byte>>> LinkEnd::room(std::chrono::nanoseconds timeout) {
  PACELINE_ASSIGN_OR_RETURN(const bool there, wait(timeout, [this] { return has_room() && ended_.ok(); }));
  if (!there) return std::nullopt;
  return out_.at(out_.begun);
}

void LinkEnd::send(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(bytes <= out_.slot_bytes, "{} bytes in a slot of {}", bytes, out_.slot_bytes);
  out_.bytes[out_.index(out_.begun++)] = bytes;
}

absl::StatusOr<std::optional<std::span<const std::byte>>> LinkEnd::message(std::chrono::nanoseconds timeout) {
  PACELINE_ASSIGN_OR_RETURN(const bool there, wait(timeout, [this] { return has_message(); }));
  if (!there) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return in_.at(in_.released).first(in_.bytes[in_.index(in_.released)]);
}

void LinkEnd::release() {
  const std::lock_guard lock(mutex_);
  ++in_.released;
}

void LinkEnd::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

// ---- Called by the thread that moves the link

void LinkEnd::attach(Link& link) {
  link.on_message([this, &link](const Link::Message& message) { hear(link, message); });
}

void LinkEnd::pump(Link& link) {
  const std::lock_guard lock(mutex_);
  for (; out_.told < out_.begun; ++out_.told) {
    const std::size_t slot = out_.index(out_.told);
    out_.busy[slot] = true;
    link.send(kMessage, out_.at(out_.told).first(out_.bytes[slot]),
              [self = shared_from_this(), slot](const absl::Status&) {
                const std::lock_guard once_more(self->mutex_);
                self->out_.busy[slot] = false;
                self->changed_.notify_all();
              });
  }
  for (; in_.told < in_.released; ++in_.told) link.send(kReleased, {}, [](const absl::Status&) {});
}

void LinkEnd::hear(Link& link, const Link::Message& message) {
  const std::lock_guard lock(mutex_);
  if (trouble_.ok()) trouble_ = take(link, message);
}

absl::Status LinkEnd::take(Link& link, const Link::Message& message) {
  PACELINE_RETURN_IF_ERROR(check(message));
  if (is(message, kReleased)) {
    ++out_.released;
    link.receive(message.id, {}, [](const absl::Status&) {});
    changed_.notify_all();
    return absl::OkStatus();
  }
  const std::size_t slot = in_.index(in_.begun);
  in_.bytes[slot] = message.bytes;
  in_.busy[slot] = true;
  link.receive(message.id, in_.at(in_.begun++).first(message.bytes),
               [self = shared_from_this(), slot](const absl::Status& status) {
                 if (status.ok()) self->landed(slot);
               });
  return absl::OkStatus();
}

absl::Status LinkEnd::check(const Link::Message& message) const {
  if (is(message, kReleased)) {
    if (message.bytes == 0 && out_.released < out_.told) return absl::OkStatus();
    return absl::DataLossError("a peer released a message that it never got");
  }
  if (!is(message, kMessage))
    return absl::DataLossError("a peer sent something that is not a message of a channel");
  if (message.bytes > in_.slot_bytes) {
    return absl::DataLossError(
        fmt::format("a peer sent a message of {} bytes in room for {}", message.bytes, in_.slot_bytes));
  }
  if (in_.begun - in_.told < in_.bytes.size()) return absl::OkStatus();
  return absl::DataLossError("a peer sent a message that there is no slot for");
}

void LinkEnd::landed(std::size_t slot) {
  const std::lock_guard lock(mutex_);
  in_.busy[slot] = false;
  changed_.notify_all();
}

void LinkEnd::end(const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  if (ended_.ok()) ended_ = why;
  changed_.notify_all();
}

absl::Status LinkEnd::trouble() {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

bool LinkEnd::closed() {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace paceline::links
