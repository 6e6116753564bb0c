// Helpers for all calls of OpenSSL's libcrypto here.
#pragma once

#include <cstddef>

#include "paceline/base/check.h"

namespace paceline::links {

inline const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
inline unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// OpenSSL's calls fail here only when it is out of memory or misused.
inline void must(int result, const char* what) { PACELINE_CHECK(result == 1, "OpenSSL: {} failed", what); }

}  // namespace paceline::links
