#include "paceline/transport/links/frame_stream.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::links {

using std::chrono::steady_clock;

FrameStream::FrameStream(std::unique_ptr<FramePort> port, FrameOwner& owner)
    : port_(std::move(port)),
      owner_(owner),
      last_life_(steady_clock::now()),
      last_posted_(steady_clock::now()) {
  port_->start(*this);
}

void FrameStream::seal(const SealKey& send, const SealKey& receive) {
  sealer_.emplace(send);
  opener_.emplace(receive);
}

void FrameStream::stop() {
  stopped_ = true;
  port_->stop();
  posted_.clear();
  coming_.clear();
}

// Memory in which chunks were sealed is used again: fresh memory would cost more than sealing.
std::vector<std::byte> FrameStream::buffer(std::size_t bytes) {
  if (spare_.empty()) return std::vector<std::byte>(bytes);
  std::vector<std::byte> buffer = std::move(spare_.back());
  spare_.pop_back();
  if (buffer.size() < bytes) buffer.resize(bytes);
  return buffer;
}

void FrameStream::post(FrameKind kind, std::uint64_t message, std::uint64_t bytes,
                       std::span<const std::byte> header, std::span<const std::byte> data) {
  if (stopped_) return;
  last_posted_ = steady_clock::now();
  const std::uint64_t count = posted_count_++;
  Posted frame{.kind = kind, .message = message, .head = {}, .sealed = {}};
  const bool sealed = has_tag(kind, sealer_.has_value());
  frame.head = write_head({kind, count, message, bytes}, header, sealed);
  if (sealed) {
    const std::size_t authenticated = frame.head.size() - kTagBytes;
    if (!data.empty()) frame.sealed = buffer(data.size());
    sealer_->seal(count, std::span(frame.head).first(authenticated), data, frame.sealed.data(),
                  frame.head.data() + authenticated);
    data = std::span(frame.sealed).first(data.size());
  }
  const Posted& kept = posted_.emplace(count, std::move(frame)).first->second;
  port_->post(kept.head, data);
}

void FrameStream::frame_sent(std::uint64_t count) {
  if (stopped_) return;
  auto frame = posted_.extract(count);
  if (frame.empty()) return;
  if (frame.mapped().kind == FrameKind::kChunk) last_life_ = steady_clock::now();
  if (!frame.mapped().sealed.empty()) spare_.push_back(std::move(frame.mapped().sealed));
  owner_.posted(frame.mapped().kind, frame.mapped().message);
}

absl::StatusOr<std::byte*> FrameStream::frame_came(std::span<const std::byte> head, std::size_t data_bytes) {
  if (stopped_) return absl::CancelledError("stopped");
  last_life_ = steady_clock::now();
  absl::StatusOr<Coming> coming = begin(head, data_bytes);
  if (!coming.ok()) {
    owner_.failed(coming.status());
    return coming.status();
  }
  const std::uint64_t count = came_count_++;
  if (data_bytes == 0) {
    hand_over(*std::move(coming));
    return nullptr;
  }
  return coming_.emplace(count, *std::move(coming)).first->second.data.data();
}

absl::StatusOr<FrameStream::Coming> FrameStream::begin(std::span<const std::byte> bytes,
                                                       std::size_t data_bytes) {
  PACELINE_ASSIGN_OR_RETURN(const ReadHead read, read_head(bytes, data_bytes, opener_.has_value()));
  if (read.head.count != came_count_) {
    return absl::DataLossError(fmt::format(
        "frame {} came where {} was due; one was repeated, left out or moved", read.head.count, came_count_));
  }
  PACELINE_RETURN_IF_ERROR(owner_.may_come(read.head.kind));
  Coming coming{.head = read.head, .raw = {bytes.begin(), bytes.end()}, .small = {}, .data = {}};
  if (read.head.kind == FrameKind::kChunk) {
    PACELINE_ASSIGN_OR_RETURN(coming.data, owner_.place(read.head, data_bytes));
  } else {
    coming.small.resize(data_bytes);
    coming.data = coming.small;
  }
  return coming;
}

void FrameStream::data_came(std::uint64_t count) {
  if (stopped_) return;
  last_life_ = steady_clock::now();
  auto coming = coming_.extract(count);
  if (!coming.empty()) hand_over(std::move(coming.mapped()));
}

absl::Status FrameStream::open(Coming& coming) {
  if (!has_tag(coming.head.kind, opener_.has_value())) return absl::OkStatus();
  const auto raw = std::span(std::as_const(coming.raw));
  const std::size_t authenticated = raw.size() - kTagBytes;
  if (opener_->open(coming.head.count, raw.first(authenticated), coming.data, raw.subspan(authenticated))) {
    return absl::OkStatus();
  }
  // The first sealed frame is the proof that the keys are the same.
  return coming.head.kind == FrameKind::kReady
             ? absl::FailedPreconditionError("the two ends do not have the same keys")
             : absl::DataLossError(fmt::format("frame {} is not what the peer sealed", coming.head.count));
}

void FrameStream::hand_over(Coming coming) {
  absl::Status status = open(coming);
  const std::size_t tag = has_tag(coming.head.kind, opener_.has_value()) ? kTagBytes : 0;
  if (status.ok()) {
    const auto header = std::span(std::as_const(coming.raw)).subspan(kFixedHeadBytes);
    status = owner_.came(coming.head, header.first(header.size() - tag), coming.data);
  }
  if (!status.ok()) owner_.failed(status);
}

void FrameStream::peer_lost(const std::string& why) {
  if (!stopped_) owner_.failed(absl::UnavailableError(why));
}

}  // namespace paceline::links
