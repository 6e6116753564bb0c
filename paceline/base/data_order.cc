#include "paceline/base/data_order.h"

#include <algorithm>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

namespace paceline {

namespace {

// The part of a position, which has one.
const DataPart& part_at(const DataOrder& order, std::int64_t position) {
  const auto behind = std::upper_bound(order.begin(), order.end(), position,
                                       [](std::int64_t at, const DataPart& part) { return at < part.from; });
  return *std::prev(behind);
}

bool is_plain(char letter) { return letter > ' ' && letter <= '~'; }

}  // namespace

absl::Status same_data(const DataOrder& before, const DataOrder& now, std::int64_t until) {
  if (before.empty() || now.empty()) return absl::OkStatus();
  std::vector<std::int64_t> begins;
  for (const DataOrder* order : {&before, &now})
    for (const DataPart& part : *order)
      if (part.from < until) begins.push_back(part.from);
  std::sort(begins.begin(), begins.end());
  for (const std::int64_t position : begins) {
    const DataPart &then = part_at(before, position), &here = part_at(now, position);
    if (then.digest == here.digest) continue;
    return absl::FailedPreconditionError(fmt::format(
        "the run was trained on {} samples, and its data are other ones from sample {} on (digest "
        "'{}', then '{}'): resume with the data and settings of that time, or begin a new run",
        until, position, then.digest, here.digest));
  }
  return absl::OkStatus();
}

std::string to_text(const DataOrder& order) {
  std::string text;
  for (const DataPart& part : order) text += fmt::format("{} {}\n", part.from, part.digest);
  return text;
}

absl::StatusOr<DataOrder> data_order_from_text(const std::string& text) {
  DataOrder order;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    DataPart part;
    if (words.size() != 2 || !absl::SimpleAtoi(words[0], &part.from))
      return absl::DataLossError(fmt::format("'{}' is no part of the data's order", std::string(line)));
    part.digest = words[1];
    order.push_back(std::move(part));
  }
  if (!is_data_order(order)) return absl::DataLossError("the parts of the data's order are not in order");
  return order;
}

bool is_data_order(const DataOrder& order) {
  if (order.size() > kMostDataParts) return false;
  if (!order.empty() && order.front().from != 0) return false;
  const bool plain = std::all_of(order.begin(), order.end(), [](const DataPart& part) {
    return !part.digest.empty() && part.digest.size() <= kLongestPartDigest &&
           std::all_of(part.digest.begin(), part.digest.end(), is_plain);
  });
  const auto not_behind = [](const DataPart& one, const DataPart& next) { return one.from >= next.from; };
  return plain && std::adjacent_find(order.begin(), order.end(), not_behind) == order.end();
}

}  // namespace paceline
