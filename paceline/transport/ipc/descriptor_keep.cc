#include "paceline/transport/ipc/descriptor_keep.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/transport/ipc/passed_descriptors.h"

namespace paceline::ipc {

absl::StatusOr<DescriptorKeep> DescriptorKeep::open() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot open a socket pair: {}", std::strerror(errno)));
  return DescriptorKeep(FileDescriptor(ends[0]), FileDescriptor(ends[1]));
}

absl::Status DescriptorKeep::keep(const std::vector<int>& descriptors) {
  PACELINE_CHECK(!descriptors.empty() && descriptors.size() <= kMost, "{} descriptors", descriptors.size());
  clear();
  if (send_with_descriptors(in_.get(), "k", descriptors, MSG_DONTWAIT)) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format("cannot keep descriptors: {}", std::strerror(errno)));
}

void DescriptorKeep::clear() {
  while (!receive(false).empty()) {
  }
}

std::vector<FileDescriptor> DescriptorKeep::receive(bool stay) const {
  auto message = receive_with_descriptors(out_.get(), 1, MSG_DONTWAIT | (stay ? MSG_PEEK : 0));
  return message ? std::move(message->descriptors) : std::vector<FileDescriptor>();
}

}  // namespace paceline::ipc
