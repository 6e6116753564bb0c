#include "paceline/transport/ipc/passed_descriptors.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "paceline/base/check.h"

namespace paceline::ipc {

namespace {

// A message of these bytes, with room for descriptors.
struct Message {
  Message(char* bytes, std::size_t size) : part{bytes, size} {
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    head.msg_control = beside.data();
    head.msg_controllen = beside.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostPassed * sizeof(int))> beside{};
  msghdr head{};
};

}  // namespace

bool send_with_descriptors(int socket, std::string_view text, std::span<const int> descriptors, int flags) {
  PACELINE_CHECK(!text.empty() && descriptors.size() <= kMostPassed, "{} bytes and {} descriptors",
                 text.size(), descriptors.size());
  Message message(const_cast<char*>(text.data()), text.size());
  message.head.msg_controllen = descriptors.empty() ? 0 : CMSG_SPACE(descriptors.size_bytes());
  if (!descriptors.empty()) {
    cmsghdr* const header = CMSG_FIRSTHDR(&message.head);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  const ssize_t sent = TEMP_FAILURE_RETRY(::sendmsg(socket, &message.head, flags | MSG_NOSIGNAL));
  return sent == static_cast<ssize_t>(text.size());
}

std::optional<PassedMessage> receive_with_descriptors(int socket, std::size_t longest, int flags) {
  PassedMessage received{std::string(longest, '\0'), {}};
  Message message(received.text.data(), longest);
  const ssize_t size = TEMP_FAILURE_RETRY(::recvmsg(socket, &message.head, flags | MSG_CMSG_CLOEXEC));
  if (size <= 0) return std::nullopt;
  received.text.resize(static_cast<std::size_t>(size));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message.head); header != nullptr;
       header = CMSG_NXTHDR(&message.head, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    std::array<int, kMostPassed> numbers{};
    const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
    std::memcpy(numbers.data(), CMSG_DATA(header), bytes);
    for (std::size_t i = 0; i < bytes / sizeof(int); ++i) received.descriptors.emplace_back(numbers[i]);
  }
  return received;
}

}  // namespace paceline::ipc
