// The clocks of a live run: the wall clock and the job's clock, which does not count the time before the
// first release and between attempts. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include "paceline/base/time.h"
#include "paceline/processes/runs/run_info.h"

namespace paceline::runs {

struct OffClock {
  Duration starting{0};    // from the opening of the journal to the first release
  Duration recovering{0};  // lost work that was done again, and the time until the next release
};

// The moment at which an attempt released its first replica, on the wall clock and on the job's.
struct FirstRelease {
  std::int64_t unix_ns = 0, job_ns = 0;
  // The moment at which the job's clock would have been 0, in seconds since 1970.
  double began_s() const { return static_cast<double>(unix_ns - job_ns) / 1e9; }
};

// `about`: the journal's keys and values; attempts count from 1. Nothing if it is not recorded, for example
// in virtual time.
inline std::optional<FirstRelease> first_release(const std::map<std::string, std::string>& about,
                                                 std::int64_t attempt) {
  const auto found = about.find(released_key(attempt));
  if (found == about.end()) return std::nullopt;
  const std::pair<std::string, std::string> parts = absl::StrSplit(found->second, absl::MaxSplits(' ', 1));
  FirstRelease at;
  if (!absl::SimpleAtoi(parts.first, &at.unix_ns) || !absl::SimpleAtoi(parts.second, &at.job_ns))
    return std::nullopt;
  return at;
}

// The first release of the last attempt that had one.
inline std::optional<FirstRelease> last_first_release(const std::map<std::string, std::string>& about,
                                                      std::int64_t attempts) {
  for (std::int64_t attempt = attempts; attempt > 0; --attempt) {
    if (const auto at = first_release(about, attempt)) return at;
  }
  return std::nullopt;
}

// If a clock was set meanwhile, no time becomes negative.
inline OffClock off_clock(const std::map<std::string, std::string>& about, std::int64_t attempts) {
  // Zero for implausible clocks; the sum of any two differences fits.
  const auto span = [](std::int64_t from, std::int64_t until) {
    constexpr std::int64_t kMost = std::int64_t{1} << 61;
    if (from < 0 || until < from || until > kMost) return Duration::zero();
    return Duration(until - from);
  };
  OffClock off;
  std::optional<FirstRelease> first, last;
  for (std::int64_t attempt = 1; attempt <= attempts; ++attempt) {
    const auto at = first_release(about, attempt);
    if (!at) continue;
    std::int64_t opened = 0;
    const auto found = about.find(opened_key(attempt));
    if (!first && found != about.end() && absl::SimpleAtoi(found->second, &opened))
      off.starting = span(opened, at->unix_ns);
    if (!first) first = at;
    last = at;
  }
  if (first && last)
    off.recovering =
        std::max(Duration::zero(), span(first->unix_ns, last->unix_ns) - span(first->job_ns, last->job_ns));
  return off;
}

}  // namespace paceline::runs
