// Links between processes of one host, over sockets that have a name and no port. An example of a carrier:
// docs/extending.md.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/transport/links/carrier.h"

namespace example {

namespace links = paceline::links;
using paceline::FileDescriptor;

class LocalCarrier final : public links::Carrier {
 public:
  static absl::StatusOr<LocalCarrier> open(const std::string& host);

 private:
  absl::StatusOr<std::unique_ptr<links::PortListener>> open_listener(int port) const override;
  absl::StatusOr<std::unique_ptr<links::FramePort>> open_port(const std::string& address) const override;
};

// On the wire: the bytes of the head, the bytes of the data (32 bits each), the head, the data.
class LocalPort final : public links::FramePort {
 public:
  static absl::StatusOr<std::unique_ptr<LocalPort>> over(FileDescriptor socket);

  void start(links::FrameSink& sink) override { sink_ = &sink; }
  void post(std::span<const std::byte> head, std::span<const std::byte> data) override;
  std::size_t chunk_bytes(std::size_t left) const override { return std::min<std::size_t>(left, 256 << 10); }
  void progress() override;
  int fd() const override { return poll_.get(); }
  bool arm() override { return unsent_.empty() || full_; }
  void stop() override;

 private:
  using Lengths = std::array<std::uint32_t, 2>;
  struct Unsent {
    Lengths lengths;
    std::span<const std::byte> head, data;
  };

  LocalPort(FileDescriptor socket, FileDescriptor poll)
      : socket_(std::move(socket)), poll_(std::move(poll)) {}
  void read();
  bool read_into(std::byte* memory, std::size_t bytes);
  void write();
  bool write_first();
  void lose(const std::string& why);

  FileDescriptor socket_, poll_;
  links::FrameSink* sink_ = nullptr;
  bool stopped_ = false;

  std::deque<Unsent> unsent_;
  std::size_t first_sent_ = 0;  // how many bytes of the first of them are sent
  bool full_ = false;           // the socket takes no more for now
  std::uint64_t sent_ = 0;

  enum class Reading { kLengths, kHead, kData } reading_ = Reading::kLengths;
  std::size_t there_ = 0;  // how many bytes of the current part have come
  Lengths lengths_{};
  std::vector<std::byte> head_;
  std::byte* into_ = nullptr;
  std::uint64_t came_ = 0;
};

}  // namespace example
