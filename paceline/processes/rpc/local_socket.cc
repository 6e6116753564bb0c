#include "paceline/processes/rpc/local_socket.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/transport/ipc/abstract_socket.h"
#include "paceline/transport/security/token.h"

namespace paceline::rpc {

namespace {

constexpr std::string_view kNamePrefix = "@paceline-";
constexpr std::size_t kKeyLetters = 32;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kReadBytes = 64 << 10;

std::string new_key() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::size_t length_at(const char* bytes) {
  std::size_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length;
}

}  // namespace

LocalOffer::LocalOffer(FileDescriptor listener, std::string key, std::string text)
    : listener_(std::move(listener)), key_(std::move(key)), text_(std::move(text)) {}

absl::StatusOr<LocalOffer> LocalOffer::make() {
  const std::string name = ipc::new_socket_name();
  PACELINE_ASSIGN_OR_RETURN(FileDescriptor listener, ipc::listen_at_name(name));
  if (::fcntl(listener.get(), F_SETFL, O_NONBLOCK) != 0) return absl::UnavailableError("a socket");
  std::string key = new_key();
  std::string text = fmt::format("{} {}", name, key);
  return LocalOffer(std::move(listener), std::move(key), std::move(text));
}

absl::StatusOr<FileDescriptor> LocalOffer::accept() const {
  while (true) {
    FileDescriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer.valid()) return absl::UnavailableError("nobody has taken the offer");
    std::array<char, kKeyLetters> shown{};
    if (!ipc::of_this_user(peer.get()) ||
        ::recv(peer.get(), shown.data(), shown.size(), 0) != static_cast<ssize_t>(shown.size()))
      continue;
    if (security::same_token({shown.data(), shown.size()}, key_)) return peer;
  }
}

std::optional<FileDescriptor> take_offer(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(0, space);
  const std::string_view key = text.substr(space + 1);
  if (!name.starts_with(kNamePrefix) || key.size() != kKeyLetters) return std::nullopt;
  auto socket = ipc::connect_to_name(std::string(name), std::chrono::seconds(0));
  if (!socket.ok() || !ipc::of_this_user(socket->get())) return std::nullopt;
  if (send_at_once(socket->get(), key) != key.size()) return std::nullopt;
  return *std::move(socket);
}

char* Frames::add_to(std::string& bytes, std::size_t size) {
  PACELINE_CHECK(size <= kLongestFrame, "a message of {} bytes", size);
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes += static_cast<char>(size >> 8 * i & 0xff);
  bytes.resize(bytes.size() + size);
  return bytes.data() + bytes.size() - size;
}

Frames::Received Frames::receive(int socket) {
  bytes_.erase(0, std::exchange(taken_, 0));
  std::array<char, kReadBytes> part;
  const ssize_t got = ::recv(socket, part.data(), part.size(), MSG_DONTWAIT);
  if (got < 0)
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? Received::kNothing : Received::kEnded;
  bytes_.append(part.data(), static_cast<std::size_t>(got));
  for (std::size_t at = 0; bytes_.size() >= at + kLengthBytes;
       at += kLengthBytes + length_at(bytes_.data() + at)) {
    if (length_at(bytes_.data() + at) <= kLongestFrame) continue;
    bytes_.resize(at);
    return Received::kEnded;
  }
  return got == 0 ? Received::kEnded : Received::kSome;
}

std::optional<std::string_view> Frames::next() {
  const std::size_t here = bytes_.size() - taken_;
  if (here < kLengthBytes) return std::nullopt;
  const std::size_t length = length_at(bytes_.data() + taken_);
  if (here - kLengthBytes < length) return std::nullopt;
  const std::string_view message(bytes_.data() + taken_ + kLengthBytes, length);
  taken_ += kLengthBytes + length;
  return message;
}

std::optional<std::size_t> send_at_once(int socket, std::string_view bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t more =
        ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (more >= 0) {
      sent += static_cast<std::size_t>(more);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return std::nullopt;
    }
  }
  return sent;
}

}  // namespace paceline::rpc
