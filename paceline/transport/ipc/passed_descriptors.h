// Passes open files to another process, beside the bytes of a message: sendmsg(2) with SCM_RIGHTS. The socket is of the
// Unix domain.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/file_descriptor.h"

namespace paceline::ipc {

inline constexpr std::size_t kMostPassed = 250;  // descriptors in a message; Linux takes 253

// Sends the text and the descriptors, which stay open here. False, with errno, if not all of the text was sent. `flags`
// are those of sendmsg(). Requires: a text, and at most kMostPassed descriptors.
bool send_with_descriptors(int socket, std::string_view text, std::span<const int> descriptors,
                           int flags = 0);

struct PassedMessage {
  std::string text;
  std::vector<FileDescriptor> descriptors;
};

// The next message, of at most `longest` bytes. nullopt if the other end is closed, or after an error. `flags`
// are those of recvmsg().
std::optional<PassedMessage> receive_with_descriptors(int socket, std::size_t longest, int flags = 0);

}  // namespace paceline::ipc
