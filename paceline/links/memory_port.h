// A channel in shared memory as a link's port. A frame is a message of the channel: head and data are copied
// in and out of its slots. The socket carries where the channel is, once, and then a byte whenever the peer
// has something to look at.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/channels/ring_channel.h"
#include "paceline/links/frame_port.h"

namespace paceline::links {

class MemoryPort final : public FramePort {
 public:
  // Over a connected socket of sequenced packets: the end that makes the channel, and the one that waits to
  // hear of it. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<MemoryPort>> create(FileDescriptor socket);
  static std::unique_ptr<MemoryPort> await(FileDescriptor socket, pid_t peer);

  void start(FrameSink& sink) override { sink_ = &sink; }
  void post(std::span<const std::byte> head, std::span<const std::byte> data) override;
  std::size_t chunk_bytes(std::size_t left) const override;
  void progress() override;
  int fd() const override { return socket_.get(); }
  bool arm() override { return true; }
  void stop() override { stopped_ = true; }

 private:
  struct Waiting {
    std::span<const std::byte> head;
    std::span<const std::byte> data;
  };

  MemoryPort(FileDescriptor socket, pid_t peer) : socket_(std::move(socket)), peer_(peer) {}
  void listen();
  absl::Status open_channel(const std::string& path);
  bool take_one();
  bool put_one();
  void ring();
  void lose(const std::string& why);

  FileDescriptor socket_;
  pid_t peer_ = 0;
  std::optional<channels::RingChannel> channel_;
  FrameSink* sink_ = nullptr;
  bool stopped_ = false;
  bool peer_gone_ = false;
  bool to_ring_ = false;
  std::deque<Waiting> waiting_;
  std::uint64_t sent_ = 0;
  std::uint64_t came_ = 0;
};

}  // namespace paceline::links
