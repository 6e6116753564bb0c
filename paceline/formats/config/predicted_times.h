// Predicted ready times from a file: the input of ZipLine outside a run. A line for each replica:
//
//   w0:1.5,3,4.5
//   # a comment, on a line of its own
//   w1:2.3,4.6,      a comma may end the list
//
// The name is any text without ':', and not twice in a file; blanks around names and times do not count.
// Times are integers or decimals in any unit, in non-descending order. Lists may have different lengths, but
// none is empty.
//
// The text is never trusted: every mistake is an InvalidArgument of one line, "FILE:LINE: what; fix", which
// does not quote the text. Its limits keep the memory for any text below 500 MB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::config {

struct PredictedTimes {
  std::vector<std::string> names;
  std::vector<std::vector<double>> lists;  // one for each name
};

// A reader takes no more than this.
inline constexpr std::int64_t kMostTimesBytes = std::int64_t{32} << 20;
inline constexpr std::size_t kMostLists = 1'000'000;
inline constexpr std::size_t kMostNameBytes = 100;
// 2^53: whole numbers up to this are exact, so are milliseconds or microseconds since 1970. Up to 1e12
// neither a time nor a difference of two loses its third decimal.
inline constexpr double kLargestTime = 9007199254740992;

// `file`: the name that errors give.
absl::StatusOr<PredictedTimes> parse_predicted_times(std::string_view text, const std::string& file);

}  // namespace paceline::config
