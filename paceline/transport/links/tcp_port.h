// One TCP connection as a link's port. A frame on the wire:
//
//   head bytes u32 │ data bytes u32 │ head │ data
//
// It is written from the link's memory and read into the link's memory; only bytes that come along with a
// head are copied. A stranger may have sent them: a length is checked before it is used, and besides the
// memory that the link names a port has 16 kB for reading.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/transport/links/frame_port.h"
#include "paceline/transport/links/socket_address.h"

namespace paceline::links {

class TcpPort final : public FramePort {
 public:
  // Connects from any port of an address of this host. A peer that does not answer is lost later. Errors:
  // Unavailable, ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<TcpPort>> connect(const SocketAddress& from, const SocketAddress& to);
  // A port of a connection that came, without waiting. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<TcpPort>> accept(FileDescriptor socket);

  void start(FrameSink& sink) override { sink_ = &sink; }
  void post(std::span<const std::byte> head, std::span<const std::byte> data) override;
  std::size_t chunk_bytes(std::size_t left) const override;
  // A sealed chunk is written at once, while it is in a processor's cache.
  bool takes_chunk() const override { return unsent_.empty(); }
  void progress() override;
  int fd() const override { return poll_.get(); }
  bool arm() override { return unsent_.empty() || full_; }
  bool finish() override;
  bool connected() const override { return bytes_sent_ > 0; }
  void stop() override;

 private:
  static constexpr std::size_t kLeastAtOnce = 128 << 10;
  using Lengths = std::array<std::uint32_t, 2>;
  struct Unsent {
    Lengths lengths;
    std::span<const std::byte> head;
    std::span<const std::byte> data;
    std::size_t bytes() const { return sizeof lengths + head.size() + data.size(); }
  };

  TcpPort(FileDescriptor socket, FileDescriptor poll) : socket_(std::move(socket)), poll_(std::move(poll)) {}
  bool read();
  void take(std::size_t bytes);
  bool take_frame();
  void write();
  bool write_some();
  void sent(std::size_t bytes);
  void fit_to_network();
  bool watch(int operation);
  void lose(const std::string& why);

  FileDescriptor socket_;
  FileDescriptor poll_;
  FrameSink* sink_ = nullptr;
  bool stopped_ = false;

  std::deque<Unsent> unsent_;
  std::size_t first_sent_ = 0;  // bytes of the first of them that have gone
  bool full_ = false;           // whether the socket takes no more for now
  std::uint64_t sent_ = 0;
  std::uint64_t bytes_sent_ = 0;

  std::size_t at_once_ = kLeastAtOnce;  // how many bytes the network gets at a time
  std::size_t chunk_bytes_ = kLeastAtOnce;
  std::uint64_t fitted_at_ = 0;  // bytes_sent_ when the speed was read last; 0: not yet
  std::uint64_t rate_ = 0;       // the network's rate at that time, bytes/s
  bool near_ = false;

  std::array<std::byte, 16 << 10> ahead_;  // read, and not taken: from begin_ to end_
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::byte* into_ = nullptr;  // the place for the next data of the frame under way
  std::size_t missing_ = 0;    // the data that this frame still misses, in bytes
  std::uint64_t came_ = 0;
};

}  // namespace paceline::links
