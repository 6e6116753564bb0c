// Frames over a port: counted, sealed once both ends know the keys, opened, and checked before their owner
// gets them. (link_frames.h describes their format.)
//
// Invariant: the owner gets each frame once, in the order posted; only the data of chunks, whose memory the
// owner chooses, may come in another order. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/transport/links/frame_port.h"
#include "paceline/transport/links/link_frames.h"
#include "paceline/transport/links/seal.h"

namespace paceline::links {

class FrameOwner {
 public:
  // A frame begins to come; an error refuses it.
  virtual absl::Status may_come(FrameKind kind) = 0;
  // Returns the memory for a chunk's data.
  virtual absl::StatusOr<std::span<std::byte>> place(const FrameHead& chunk, std::size_t data_bytes) = 0;
  // A frame has come, and was opened.
  virtual absl::Status came(const FrameHead& head, std::span<const std::byte> header,
                            std::span<const std::byte> data) = 0;
  // The data of a frame that was posted belong to the owner again.
  virtual void posted(FrameKind kind, std::uint64_t message) = 0;
  // No further frame comes. Not called from within post().
  virtual void failed(const absl::Status& why) = 0;

 protected:
  ~FrameOwner() = default;
};

class FrameStream final : FrameSink {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  FrameStream(std::unique_ptr<FramePort> port, FrameOwner& owner);
  ~FrameStream() { stop(); }
  FrameStream(const FrameStream&) = delete;
  FrameStream& operator=(const FrameStream&) = delete;

  // Seals every frame from here on, in both directions. Requires: these keys are used nowhere else.
  void seal(const SealKey& send, const SealKey& receive);
  // Head and header are copied; the data must stay unchanged until posted().
  void post(FrameKind kind, std::uint64_t message, std::uint64_t bytes,
            std::span<const std::byte> header = {}, std::span<const std::byte> data = {});
  void progress() { port_->progress(); }
  bool finish() { return port_->finish(); }
  // From here on no data are touched, and the owner is not called.
  void stop();

  std::size_t chunk_bytes(std::size_t left) const { return port_->chunk_bytes(left); }
  bool takes_chunk() const { return port_->takes_chunk(); }
  bool connected() const { return port_->connected(); }
  int fd() const { return port_->fd(); }
  bool arm() { return port_->arm(); }
  // The time of the peer's latest sign of life: it sent a frame, or took a chunk.
  SteadyTime last_life() const { return last_life_; }
  SteadyTime last_posted() const { return last_posted_; }

 private:
  struct Posted {
    FrameKind kind = FrameKind::kHeartbeat;
    std::uint64_t message = 0;
    std::vector<std::byte> head;
    std::vector<std::byte> sealed;
  };
  struct Coming {
    FrameHead head;
    std::vector<std::byte> raw;    // the head as it came
    std::vector<std::byte> small;  // data for which the owner gives no memory
    std::span<std::byte> data;
  };

  absl::StatusOr<std::byte*> frame_came(std::span<const std::byte> head, std::size_t data_bytes) override;
  void data_came(std::uint64_t count) override;
  void frame_sent(std::uint64_t count) override;
  void peer_lost(const std::string& why) override;
  absl::StatusOr<Coming> begin(std::span<const std::byte> head, std::size_t data_bytes);
  absl::Status open(Coming& coming);
  void hand_over(Coming coming);
  std::vector<std::byte> buffer(std::size_t bytes);

  std::unique_ptr<FramePort> port_;
  FrameOwner& owner_;
  bool stopped_ = false;
  std::optional<Sealer> sealer_;
  std::optional<Opener> opener_;
  SteadyTime last_life_;
  SteadyTime last_posted_;
  std::uint64_t posted_count_ = 0;
  std::uint64_t came_count_ = 0;
  std::map<std::uint64_t, Posted> posted_;  // keyed by count
  std::map<std::uint64_t, Coming> coming_;  // keyed by count; their data are under way
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace paceline::links
