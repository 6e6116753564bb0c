// True if a system call failed because of a lack of descriptors or memory, which may be available again
// later.
#pragma once

#include <cerrno>

namespace paceline::links {

inline bool out_of_means() {
  return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}

}  // namespace paceline::links
