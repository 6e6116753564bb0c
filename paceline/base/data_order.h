// Which sample stands at each position of a job's training data, as far as it can be compared without them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline {

// From a position on, until the next part. Equal digests mean the same samples at the same positions.
struct DataPart {
  std::int64_t from = 0;  // counted over all epochs
  std::string digest;
  friend bool operator==(const DataPart&, const DataPart&) = default;
};

// Positions ascend, and the first is 0. Empty: nobody knows.
using DataOrder = std::vector<DataPart>;

inline constexpr std::size_t kMostDataParts = 256;
inline constexpr std::size_t kLongestPartDigest = 64;  // bytes

// OK if the samples at positions before `until` are the same in both, or one of them is not known. Errors:
// FailedPrecondition, with the first position that differs.
absl::Status same_data(const DataOrder& before, const DataOrder& now, std::int64_t until);

// One line a part. Errors: DataLoss for any other text.
std::string to_text(const DataOrder& order);
absl::StatusOr<DataOrder> data_order_from_text(const std::string& text);

// Whether positions ascend from 0, and digests are short and printable.
bool is_data_order(const DataOrder& order);

}  // namespace paceline
