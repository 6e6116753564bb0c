#include "paceline/transport/links/testing/paired_ports.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace paceline::links::testing {

PairedPort::PairedPort() : fd_(eventfd(0, EFD_NONBLOCK)) {}

PairedPort::~PairedPort() {
  if (peer_ != nullptr) peer_->peer_ = nullptr;
  close(fd_);
}

void PairedPort::join(PairedPort& one, PairedPort& other) {
  one.peer_ = &other;
  other.peer_ = &one;
}

void PairedPort::post(std::span<const std::byte> head, std::span<const std::byte> data) {
  ++posted_;
  if (peer_ == nullptr) return;
  Frame frame{{head.begin(), head.end()}, {data.begin(), data.end()}};
  if (hand_) {
    hand_(std::move(frame), peer_->came_);
  } else {
    peer_->came_.push_back(std::move(frame));
  }
}

void PairedPort::progress() {
  while (!stopped_ && sent_ < posted_) sink_->frame_sent(sent_++);
  for (std::deque<Frame> now = std::exchange(came_, {}); !stopped_ && !now.empty(); now.pop_front()) {
    const Frame& frame = now.front();
    const auto memory = sink_->frame_came(frame.head, frame.data.size());
    if (!memory.ok()) continue;
    const std::uint64_t count = taken_++;
    if (frame.data.empty()) continue;
    std::ranges::copy(frame.data, *memory);
    sink_->data_came(count);
  }
}

}  // namespace paceline::links::testing
