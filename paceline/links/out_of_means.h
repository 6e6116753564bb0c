// Why a call of the system's failed: for want of descriptors or of memory, which may be there again later.
#pragma once

#include <cerrno>

namespace paceline::links {

inline bool out_of_means() {
  return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}

}  // namespace paceline::links
