#include "paceline/memory/descriptor_keep.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::memory {

absl::StatusOr<DescriptorKeep> DescriptorKeep::open() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot open a socket pair: {}", std::strerror(errno)));
  return DescriptorKeep(FileDescriptor(ends[0]), FileDescriptor(ends[1]));
}

absl::Status DescriptorKeep::keep(const std::vector<int>& descriptors) {
  PACELINE_CHECK(!descriptors.empty() && descriptors.size() <= kMost, "{} descriptors", descriptors.size());
  clear();
  char text = 'k';
  iovec part{&text, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMost * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  if (sendmsg(in_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format("cannot keep descriptors: {}", std::strerror(errno)));
}

void DescriptorKeep::clear() {
  while (!receive(false).empty()) {
  }
}

std::vector<FileDescriptor> DescriptorKeep::receive(bool stay) const {
  char text = 0;
  iovec part{&text, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMost * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  std::vector<FileDescriptor> descriptors;
  if (recvmsg(out_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | (stay ? MSG_PEEK : 0)) < 0)
    return descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(descriptor);
    }
  }
  return descriptors;
}

}  // namespace paceline::memory
