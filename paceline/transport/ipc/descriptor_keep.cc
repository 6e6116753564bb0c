#include "paceline/transport/ipc/descriptor_keep.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/transport/ipc/passed_descriptors.h"

namespace paceline::ipc {

namespace {

// Far more than a keep ever has: a process that is killed in keep() leaves one that is not needed.
constexpr int kMostMessages = 1000;

}  // namespace

absl::StatusOr<DescriptorKeep> DescriptorKeep::open() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot open a socket pair: {}", std::strerror(errno)));
  DescriptorKeep keep(FileDescriptor{ends[0]}, FileDescriptor{ends[1]});
  if (!keep.sees_all())
    return absl::UnimplementedError(
        "this system's sockets have no peek offsets, which a keep of descriptors needs");
  return keep;
}

// gVisor takes the option SO_PEEK_OFF, and ignores it.
bool DescriptorKeep::sees_all() {
  const int offset = 0;
  if (setsockopt(out_.get(), SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset) != 0) return false;
  constexpr int kSent = 2;
  for (int i = 0; i < kSent; ++i) {
    if (!send_with_descriptors(in_.get(), "x", {}, MSG_DONTWAIT)) return false;
  }
  const int seen = last_of_all().count;
  clear();
  return seen == kSent;
}

absl::Status DescriptorKeep::keep(std::string_view text, std::span<const int> descriptors) {
  if (descriptors.size() > kMost || text.size() > kLongest)
    return absl::ResourceExhaustedError(fmt::format(
        "{} descriptors and a text of {} bytes are more than can be kept", descriptors.size(), text.size()));
  if (!send_with_descriptors(in_.get(), text, descriptors, MSG_DONTWAIT))
    return absl::ResourceExhaustedError(fmt::format("cannot keep descriptors: {}", std::strerror(errno)));
  for (int older = last_of_all().count - 1; older > 0; --older)
    receive_with_descriptors(out_.get(), kLongest, MSG_DONTWAIT);
  return absl::OkStatus();
}

void DescriptorKeep::clear() {
  while (receive_with_descriptors(out_.get(), kLongest, MSG_DONTWAIT)) {
  }
}

// With a peek offset, each peek begins behind the bytes that the peeks before have seen.
DescriptorKeep::All DescriptorKeep::last_of_all() const {
  const auto peek_from = [this](int offset) {
    PACELINE_CHECK(setsockopt(out_.get(), SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset) == 0,
                   "a socket without peek offsets: {}", std::strerror(errno));
  };
  All all;
  peek_from(0);
  while (all.count < kMostMessages) {
    auto message = receive_with_descriptors(out_.get(), kLongest, MSG_DONTWAIT | MSG_PEEK);
    if (!message) break;
    ++all.count;
    all.last = std::move(message);
  }
  peek_from(-1);
  return all;
}

}  // namespace paceline::ipc
