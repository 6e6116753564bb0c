// Numbers of the user's own, by name: of a step, or of an evaluation.
#pragma once

#include <cstddef>
#include <string>

#include <absl/container/btree_map.h>

namespace paceline {

// In half the memory of a std::map where there are none, as in most facts.
using Metrics = absl::btree_map<std::string, double>;

// Of one step or one evaluation.
inline constexpr std::size_t kMostMetrics = 100;
inline constexpr std::size_t kLongestMetricName = 100;  // bytes

// Whether a program may have sent them. Nobody else has looked at what comes over the network.
inline bool plausible(const Metrics& metrics) {
  if (metrics.size() > kMostMetrics) return false;
  for (const auto& [name, value] : metrics) {
    if (name.empty() || name.size() > kLongestMetricName) return false;
  }
  return true;
}

}  // namespace paceline
