// Two ports joined in memory, for tests of a link's reactions to frames: each frame passes a hand that may
// change it, keep it, or send it twice.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "paceline/transport/links/frame_port.h"

namespace paceline::links::testing {

struct Frame {
  std::vector<std::byte> head;
  std::vector<std::byte> data;
};

class PairedPort final : public FramePort {
 public:
  using Hand = std::function<void(Frame, std::deque<Frame>& on)>;  // puts the frames that go on into `on`

  PairedPort();
  ~PairedPort() override;
  // Frames that one posts come to the other, while the other lives.
  static void join(PairedPort& one, PairedPort& other);
  void meddle(Hand hand) { hand_ = std::move(hand); }
  // Adds a frame, as if the peer had posted it.
  void inject(Frame frame) { came_.push_back(std::move(frame)); }

  void start(FrameSink& sink) override { sink_ = &sink; }
  void post(std::span<const std::byte> head, std::span<const std::byte> data) override;
  std::size_t chunk_bytes(std::size_t left) const override { return std::min<std::size_t>(10'000, left); }
  void progress() override;
  int fd() const override { return fd_; }
  bool arm() override { return came_.empty(); }
  bool finish() override { return !finish_ || finish_(); }
  void at_finish(std::function<bool()> finish) { finish_ = std::move(finish); }
  void stop() override { stopped_ = true; }

 private:
  int fd_ = -1;
  PairedPort* peer_ = nullptr;
  FrameSink* sink_ = nullptr;
  Hand hand_;
  std::function<bool()> finish_;
  bool stopped_ = false;
  std::deque<Frame> came_;
  std::uint64_t posted_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace paceline::links::testing
