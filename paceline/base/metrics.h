// The user's own numbers, by name, of a step or of an evaluation.
#pragma once

#include <cstddef>
#include <string>

#include <absl/container/btree_map.h>

namespace paceline {

// An absl::btree_map, because it takes half the memory of a std::map if it is empty, as in most facts.
using Metrics = absl::btree_map<std::string, double>;

// Limits for one step or one evaluation.
inline constexpr std::size_t kMostMetrics = 100;
inline constexpr std::size_t kLongestMetricName = 100;  // bytes

// Whether a program may have sent these metrics. This is the only check of metrics that come over the
// network.
inline bool plausible(const Metrics& metrics) {
  if (metrics.size() > kMostMetrics) return false;
  for (const auto& [name, value] : metrics) {
    if (name.empty() || name.size() > kLongestMetricName) return false;
  }
  return true;
}

}  // namespace paceline
