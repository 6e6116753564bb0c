// Time of a live run that the job's clock does not see: before its first release, and between its attempts.
// Pure.
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
#include "paceline/runs/run_info.h"

namespace paceline::runs {

struct OffClock {
  Duration starting{0};  // from the opening of its journal to its first release
  Duration recovering{
      0};  // what was lost with a process and done again, and until somebody was released again
};

// `about`: the journal's keys and values; attempts count from 1. Nothing of what is not recorded, as in
// virtual time. Clocks that were set meanwhile give no negative times.
inline OffClock off_clock(const std::map<std::string, std::string>& about, std::int64_t attempts) {
  using Released = std::pair<std::int64_t, std::int64_t>;
  const auto released = [&](std::int64_t attempt) -> std::optional<Released> {
    const auto found = about.find(released_key(attempt));
    if (found == about.end()) return std::nullopt;
    const std::pair<std::string, std::string> parts = absl::StrSplit(found->second, absl::MaxSplits(' ', 1));
    Released at;
    if (!absl::SimpleAtoi(parts.first, &at.first) || !absl::SimpleAtoi(parts.second, &at.second))
      return std::nullopt;
    return at;
  };
  // Of plausible clocks; the difference of any two can be added up.
  const auto span = [](std::int64_t from, std::int64_t until) {
    constexpr std::int64_t kMost = std::int64_t{1} << 61;
    if (from < 0 || until < from || until > kMost) return Duration::zero();
    return Duration(until - from);
  };
  OffClock off;
  std::optional<Released> first, last;
  for (std::int64_t attempt = 1; attempt <= attempts; ++attempt) {
    const auto at = released(attempt);
    if (!at) continue;
    std::int64_t opened = 0;
    const auto found = about.find(opened_key(attempt));
    if (!first && found != about.end() && absl::SimpleAtoi(found->second, &opened))
      off.starting = span(opened, at->first);
    if (!first) first = at;
    last = at;
  }
  if (first && last)
    off.recovering =
        std::max(Duration::zero(), span(first->first, last->first) - span(first->second, last->second));
  return off;
}

}  // namespace paceline::runs
