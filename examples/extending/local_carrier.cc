#include "examples/extending/local_carrier.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/transport/links/link_frames.h"
#include "paceline/transport/links/out_of_means.h"

namespace example {

namespace {

FileDescriptor new_socket() {
  return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

absl::Status failed(const std::string& what) {
  return absl::UnavailableError(what + ": " + std::strerror(errno));
}

// A name that no file system has begins with a zero byte; "@" stands for it.
sockaddr_un address_named(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!name.empty()) name.copy(address.sun_path + 1, sizeof address.sun_path - 1, 1);
  return address;
}
socklen_t bytes_of(const std::string& name) {
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
}

class LocalListener final : public links::PortListener {
 public:
  LocalListener(FileDescriptor socket, std::string address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  const std::string& address() const override { return address_; }
  int fd() const override { return socket_.get(); }
  bool arm() override { return true; }

  bool progress(const OnPort& on_port) override {
    for (;;) {
      FileDescriptor one(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!one.valid()) return !links::out_of_means();
      auto port = LocalPort::over(std::move(one));
      if (port.ok()) on_port(*std::move(port), "a process of this host");
    }
  }

 private:
  FileDescriptor socket_;
  std::string address_;
};

}  // namespace

// ---- The carrier

absl::StatusOr<LocalCarrier> LocalCarrier::open(const std::string&) { return LocalCarrier(); }

absl::StatusOr<std::unique_ptr<links::PortListener>> LocalCarrier::open_listener(int port) const {
  FileDescriptor socket = new_socket();
  // If the name is empty, the system chooses one.
  const std::string name = port == 0 ? "" : "@example-" + std::to_string(port);
  sockaddr_un address = address_named(name);
  const socklen_t bytes = port == 0 ? sizeof address.sun_family : bytes_of(name);
  if (!socket.valid() || bind(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      ::listen(socket.get(), 64) != 0)
    return failed("cannot listen");
  socklen_t size = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return failed("cannot listen");
  const std::string text(address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
  return std::make_unique<LocalListener>(std::move(socket), "@" + text);
}

absl::StatusOr<std::unique_ptr<links::FramePort>> LocalCarrier::open_port(const std::string& address) const {
  sockaddr_un to = address_named(address);
  if (address.size() < 2 || address.front() != '@' || address.size() >= sizeof to.sun_path)
    return absl::InvalidArgumentError("this is no address of a process on this host; those look like @0001f");
  FileDescriptor socket = new_socket();
  if (!socket.valid() || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), bytes_of(address)) != 0)
    return failed("cannot connect");
  return LocalPort::over(std::move(socket));
}

// ---- A connection

// The descriptor that is watched becomes readable when there is more to read or room to write.
absl::StatusOr<std::unique_ptr<LocalPort>> LocalPort::over(FileDescriptor socket) {
  FileDescriptor poll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLET;
  if (!poll.valid() || epoll_ctl(poll.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0)
    return failed("no connection can be opened");
  return std::unique_ptr<LocalPort>(new LocalPort(std::move(socket), std::move(poll)));
}

void LocalPort::progress() {
  if (stopped_) return;
  epoll_event seen{};
  epoll_wait(poll_.get(), &seen, 1, 0);
  read();
  write();
}

void LocalPort::stop() {
  stopped_ = true;
  unsent_.clear();
  socket_ = FileDescriptor();
}

void LocalPort::lose(const std::string& why) {
  if (!std::exchange(stopped_, true)) sink_->peer_lost(why);
}

// True when all bytes are there.
bool LocalPort::read_into(std::byte* memory, std::size_t bytes) {
  while (there_ < bytes) {
    const ssize_t count = recv(socket_.get(), memory + there_, bytes - there_, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count <= 0) {
      lose("the peer is gone");
      return false;
    }
    there_ += static_cast<std::size_t>(count);
  }
  there_ = 0;
  return true;
}

// The peer is not trusted: a length is checked before it is used.
void LocalPort::read() {
  while (!stopped_) {
    if (reading_ == Reading::kLengths) {
      if (!read_into(reinterpret_cast<std::byte*>(lengths_.data()), sizeof lengths_)) return;
      if (lengths_[0] > links::kMostHeadBytes || lengths_[1] > links::kMostChunkBytes)
        return lose("the peer sent what is no frame");
      head_.resize(lengths_[0]);
      reading_ = Reading::kHead;
    }
    if (reading_ == Reading::kHead) {
      if (!read_into(head_.data(), head_.size())) return;
      const auto memory = sink_->frame_came(head_, lengths_[1]);
      if (!memory.ok()) {
        stopped_ = true;
        return;
      }
      into_ = *memory;
      ++came_;
      reading_ = Reading::kData;
    }
    if (lengths_[1] > 0 && !read_into(into_, lengths_[1])) return;
    reading_ = Reading::kLengths;
    if (lengths_[1] > 0) sink_->data_came(came_ - 1);
  }
}

void LocalPort::post(std::span<const std::byte> head, std::span<const std::byte> data) {
  const Lengths lengths{static_cast<std::uint32_t>(head.size()), static_cast<std::uint32_t>(data.size())};
  if (!stopped_) unsent_.push_back({lengths, head, data});
}

void LocalPort::write() {
  full_ = false;
  while (!stopped_ && !unsent_.empty() && write_first()) {
  }
}

// False if the socket takes no more.
bool LocalPort::write_first() {
  const Unsent& frame = unsent_.front();
  std::size_t skip = first_sent_;
  std::size_t left = 0;
  std::array<iovec, 3> parts{};
  const std::array<std::span<const std::byte>, 3> all{std::as_bytes(std::span(frame.lengths)), frame.head,
                                                      frame.data};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::span<const std::byte> part = all[i].subspan(std::min(skip, all[i].size()));
    skip -= std::min(skip, all[i].size());
    left += part.size();
    parts[i] = {const_cast<std::byte*>(part.data()), part.size()};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t went = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  if (went < 0 && errno == EINTR) return true;
  if (went < 0 && errno != EAGAIN) {
    read();  // take what the peer sent before it went
    lose("the peer is gone");
    return false;
  }
  full_ = went < static_cast<ssize_t>(left);
  first_sent_ += static_cast<std::size_t>(std::max<ssize_t>(went, 0));
  if (full_) return false;
  unsent_.pop_front();
  first_sent_ = 0;
  sink_->frame_sent(sent_++);
  return true;
}

}  // namespace example
