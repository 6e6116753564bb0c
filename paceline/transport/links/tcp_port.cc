#include "paceline/transport/links/tcp_port.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/transport/links/link_frames.h"

namespace paceline::links {

namespace {

constexpr std::size_t kLengthsBytes = 8;
// The network gets the amount at a time that it carries in kAtOnceUs, between TcpPort::kLeastAtOnce and
// kMostBytesAtOnce. With less the processes wait for each other; more does not stay in a processor's cache
// from the cipher to the socket, and keeps other peers' flows and this one's next small frames waiting.
constexpr std::uint64_t kAtOnceUs = 200;
constexpr std::size_t kMostBytesAtOnce = 256 << 10;
// The kernel hands a card (or loopback) whole segments of at most this size together: 64 kB minus the room
// that headers may take.
constexpr std::size_t kMostPiece = 65'215;
// The bytes of a frame with a chunk, besides the chunk.
constexpr std::size_t kAroundChunk = kLengthsBytes + kFixedHeadBytes + kTagBytes;
// The network's speed is read again after this many bytes.
constexpr std::uint64_t kAskedEvery = 1 << 20;
// If the peer is nearer than this, the data under way are bounded too. The kernel's own choice fills the
// switch between two hosts, where data are dropped, or keep other hosts' data waiting: rounds between four
// hosts at 1 Gb/s took 4 to 7 % longer. For farther peers the kernel chooses.
constexpr std::uint32_t kNearUs = 500;
// The most bytes that the kernel has taken and not sent; more would only keep the next frames waiting.
constexpr int kMostUnsent = 128 << 10;
// The most bytes read at a time, so that a fast peer does not keep the others waiting.
constexpr std::size_t kMostRead = 4 << 20;
constexpr std::size_t kFramesAtOnce = 64;
// A side that has said all that it may say until the other one answers sends nothing by itself, so it would not learn
// that the network between them was cut meanwhile. The kernel asks after so many seconds of silence, again after so
// many more, and gives up after so many questions.
constexpr int kAskedAfterS = 5, kAskedEveryS = 3, kMostAsked = 3;

iovec piece(std::span<const std::byte> bytes) {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

std::string gone() { return fmt::format("the peer is gone ({})", std::strerror(errno)); }

absl::Status no_descriptors() {
  return absl::ResourceExhaustedError(fmt::format("no connection can be opened: {}", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpPort>> TcpPort::connect(const SocketAddress& from,
                                                          const SocketAddress& to) {
  FileDescriptor socket(
      ::socket(from.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket.valid()) return no_descriptors();
  const bool begun = bind(socket.get(), from.get(), from.bytes) == 0 &&
                     (::connect(socket.get(), to.get(), to.bytes) == 0 || errno == EINPROGRESS);
  if (!begun) {
    return absl::UnavailableError(
        fmt::format("cannot connect from {}: {}", to_text(from.storage), std::strerror(errno)));
  }
  return accept(std::move(socket));
}

absl::StatusOr<std::unique_ptr<TcpPort>> TcpPort::accept(FileDescriptor socket) {
  FileDescriptor poll(epoll_create1(EPOLL_CLOEXEC));
  if (!poll.valid()) return no_descriptors();
  // A small frame does not wait for the next one, nor long behind data that the kernel has taken and not
  // sent.
  const int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMostUnsent, sizeof kMostUnsent);
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &kAskedAfterS, sizeof kAskedAfterS);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &kAskedEveryS, sizeof kAskedEveryS);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &kMostAsked, sizeof kMostAsked);
  std::unique_ptr<TcpPort> port(new TcpPort(std::move(socket), std::move(poll)));
  if (!port->watch(EPOLL_CTL_ADD)) return no_descriptors();
  return port;
}

// A very small rest does not get a frame of its own.
std::size_t TcpPort::chunk_bytes(std::size_t left) const {
  return left < chunk_bytes_ + chunk_bytes_ / 8 ? left : chunk_bytes_;
}

// A rate that was seen once may have been a burst's, so the lower of two counts. A frame with a chunk
// consists of whole pieces; otherwise each would end in a small one.
void TcpPort::fit_to_network() {
  tcp_info about{};
  socklen_t bytes = sizeof about;
  const bool first = std::exchange(fitted_at_, bytes_sent_) == 0;
  if (getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &about, &bytes) != 0) return;
  const std::uint64_t rate = about.tcpi_delivery_rate;
  const std::size_t carried = std::min(rate, std::exchange(rate_, rate)) * kAtOnceUs / 1'000'000;
  const std::size_t fitting = std::bit_floor(std::clamp(carried, kLeastAtOnce, kMostBytesAtOnce));
  const std::size_t before = std::exchange(at_once_, fitting);
  const std::size_t segment = std::max<std::size_t>(about.tcpi_snd_mss, 1);
  const std::size_t piece = std::max<std::size_t>(kMostPiece / segment, 1) * segment;
  chunk_bytes_ = at_once_ / piece * piece - kAroundChunk;
  if (first) near_ = about.tcpi_rtt <= kNearUs;
  if (!near_ || (!first && at_once_ == before)) return;
  const auto on_the_way = static_cast<int>(at_once_);
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &on_the_way, sizeof on_the_way);
}

void TcpPort::progress() {
  if (stopped_) return;
  read();
  write();
}

bool TcpPort::watch(int operation) {
  epoll_event event{};
  event.events = full_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
  return epoll_ctl(poll_.get(), operation, socket_.get(), &event) == 0;
}

// A socket that is closed while it has unread data drops its unsent data.
bool TcpPort::finish() {
  if (stopped_) return true;
  shutdown(socket_.get(), SHUT_WR);
  for (std::size_t read = 0; read < kMostRead; read += ahead_.size()) {
    const ssize_t unread = recv(socket_.get(), ahead_.data(), ahead_.size(), MSG_DONTWAIT);
    if (unread == 0 || (unread < 0 && !would_block() && errno != EINTR)) return true;
    if (unread < 0) break;
  }
  int unsent = 0;
  return ioctl(socket_.get(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

void TcpPort::stop() {
  stopped_ = true;
  unsent_.clear();
  socket_ = FileDescriptor();
}

void TcpPort::lose(const std::string& why) {
  if (std::exchange(stopped_, true)) return;
  sink_->peer_lost(why);
}

// ---- In

// Reads awaited data into their final place; behind a chunk's data there is room for the next frame's head.
// False if there is nothing more for now.
bool TcpPort::read() {
  for (std::size_t left = kMostRead; left > 0 && !stopped_;) {
    const std::size_t room = ahead_.size() - end_;
    const std::size_t behind =
        missing_ > 0 ? std::min(room, std::size_t{kLengthsBytes + kMostHeadBytes}) : room;
    const iovec parts[] = {{into_, std::min(missing_, left)}, {ahead_.data() + end_, behind}};
    // If not all of the data fit, nothing may be read behind them.
    const int count = missing_ > left ? 1 : 2;
    const ssize_t got = readv(socket_.get(), parts, count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && would_block()) return false;
    if (got <= 0) {
      lose(got == 0 ? "the peer is gone" : gone());
      return false;
    }
    const auto bytes = static_cast<std::size_t>(got);
    const std::size_t wanted = parts[0].iov_len + (count == 2 ? behind : 0);
    take(bytes);
    if (bytes < wanted) return false;
    left -= std::min(left, bytes);
  }
  return !stopped_;
}

void TcpPort::take(std::size_t bytes) {
  const std::size_t data = std::min(bytes, missing_);
  into_ += data;
  missing_ -= data;
  end_ += bytes - data;
  if (data > 0 && missing_ == 0) sink_->data_came(came_ - 1);
  while (!stopped_ && missing_ == 0 && take_frame()) {
  }
  // The rest is less than a head.
  std::copy(ahead_.begin() + static_cast<std::ptrdiff_t>(begin_),
            ahead_.begin() + static_cast<std::ptrdiff_t>(end_), ahead_.begin());
  end_ -= std::exchange(begin_, 0);
}

// Takes the frame that begins in the bytes read ahead. False if its head is not complete yet.
bool TcpPort::take_frame() {
  const std::span<const std::byte> there(ahead_.data() + begin_, end_ - begin_);
  Lengths lengths{};
  if (there.size() < kLengthsBytes) return false;
  std::memcpy(lengths.data(), there.data(), kLengthsBytes);
  const auto [head_bytes, data_bytes] = lengths;
  if (head_bytes > kMostHeadBytes || data_bytes > kMostChunkBytes) {
    lose("the peer sent something that is not a frame");
    return false;
  }
  if (there.size() < kLengthsBytes + head_bytes) return false;
  const absl::StatusOr<std::byte*> memory =
      sink_->frame_came(there.subspan(kLengthsBytes, head_bytes), data_bytes);
  if (!memory.ok()) {
    stopped_ = true;
    return false;
  }
  const std::uint64_t count = came_++;
  const std::span<const std::byte> rest = there.subspan(kLengthsBytes + head_bytes);
  const std::span<const std::byte> data = rest.first(std::min<std::size_t>(rest.size(), data_bytes));
  begin_ += kLengthsBytes + head_bytes + data.size();
  if (data_bytes == 0) return true;
  std::copy(data.begin(), data.end(), *memory);
  into_ = *memory + data.size();
  missing_ = data_bytes - data.size();
  if (missing_ == 0) sink_->data_came(count);
  return true;
}

// ---- Out

void TcpPort::post(std::span<const std::byte> head, std::span<const std::byte> data) {
  if (stopped_) return;
  unsent_.push_back(
      {{static_cast<std::uint32_t>(head.size()), static_cast<std::uint32_t>(data.size())}, head, data});
}

void TcpPort::write() {
  const bool was_full = std::exchange(full_, false);
  while (!stopped_ && !unsent_.empty() && write_some()) {
  }
  if (stopped_ || full_ == was_full) return;
  PACELINE_CHECK(watch(EPOLL_CTL_MOD), "cannot watch a socket");
}

// False if the socket takes no more.
bool TcpPort::write_some() {
  std::array<iovec, 3 * kFramesAtOnce> parts;
  std::size_t count = 0;
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < unsent_.size() && i < kFramesAtOnce; ++i) {
    const Unsent& frame = unsent_[i];
    std::size_t skip = i == 0 ? first_sent_ : 0;
    wanted += frame.bytes() - skip;
    const std::array<std::span<const std::byte>, 3> all{std::as_bytes(std::span(frame.lengths)), frame.head,
                                                        frame.data};
    for (const std::span<const std::byte> part : all) {
      const std::size_t skipped = std::min(skip, part.size());
      skip -= skipped;
      if (skipped < part.size()) parts[count++] = piece(part.subspan(skipped));
    }
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t went = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (went < 0 && errno == EINTR) return true;
  if (went < 0 && !would_block()) {
    const std::string why = gone();
    // Bytes that the peer sent before it went count.
    while (read()) {
    }
    lose(why);
    return false;
  }
  if (went > 0) sent(static_cast<std::size_t>(went));
  full_ = went < static_cast<ssize_t>(wanted);
  return !full_;
}

void TcpPort::sent(std::size_t bytes) {
  bytes_sent_ += bytes;
  if (fitted_at_ == 0 || bytes_sent_ - fitted_at_ >= kAskedEvery) fit_to_network();
  first_sent_ += bytes;
  while (!unsent_.empty() && first_sent_ >= unsent_.front().bytes()) {
    first_sent_ -= unsent_.front().bytes();
    unsent_.pop_front();
    sink_->frame_sent(sent_++);
  }
}

}  // namespace paceline::links
