// The speed of a link from transfers that grow until one takes long enough for its start to count little. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <absl/status/statusor.h>

#include "paceline/base/status_macros.h"

namespace paceline::doctor {

inline constexpr std::int64_t kFirstTransfer = 256 << 10;
inline constexpr std::int64_t kMostTransfer = std::int64_t{512} << 20;

// In MB/s. `timed`: the seconds that a transfer of so many bytes takes. A machine that stands still for a moment makes
// one transfer slow, so the first one that takes long enough is repeated: the faster one counts, and if that was too
// short, larger ones follow.
template <class Timed>
absl::StatusOr<double> transfer_mb_s(const Timed& timed) {
  constexpr double kLongEnough_s = 0.2;  // a shorter transfer is too short to measure
  constexpr double kLong_s = 2;          // a moment counts little in a transfer that takes longer
  for (std::int64_t bytes = kFirstTransfer;; bytes = std::min(4 * bytes, kMostTransfer)) {
    PACELINE_ASSIGN_OR_RETURN(double took_s, timed(bytes));
    if (took_s >= kLongEnough_s && took_s < kLong_s) {
      PACELINE_ASSIGN_OR_RETURN(const double again_s, timed(bytes));
      took_s = std::min(took_s, again_s);
    }
    if (took_s >= kLongEnough_s || bytes == kMostTransfer) return static_cast<double>(bytes) / 1e6 / took_s;
  }
}

}  // namespace paceline::doctor
