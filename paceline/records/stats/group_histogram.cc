#include "paceline/records/stats/group_histogram.h"

#include <algorithm>
#include <bit>

#include "paceline/base/check.h"

namespace paceline::report {

namespace {

constexpr auto kExact = static_cast<std::size_t>(GroupHistogram::kExactSizes);
constexpr int kExactBits = std::bit_width(kExact);
const char* const kOther = "other";

std::string_view stem(std::string_view text) { return text.substr(0, text.find(':')); }

std::string without_numbers(std::string_view text) {
  std::string words(text);
  for (std::size_t at = 0; (at = words.find("{}", at)) != std::string::npos;) words.replace(at, 2, "…");
  return words;
}

std::size_t bin_of(std::int64_t size) {
  const auto before = static_cast<std::size_t>(size) - 1;
  if (before < kExact) return before;
  return kExact + static_cast<std::size_t>(std::bit_width(before) - kExactBits);
}

std::int64_t first_size(std::size_t bin) {
  if (bin < kExact) return static_cast<std::int64_t>(bin) + 1;
  return (GroupHistogram::kExactSizes << (bin - kExact)) + 1;
}

}  // namespace

std::string cause_of(const policy::Reason& reason) { return without_numbers(stem(reason.text)); }

void GroupHistogram::add(std::int64_t size, const policy::Reason& why) {
  PACELINE_CHECK(size > 0, "a commit of {} gradients", size);
  const std::size_t bin = bin_of(size);
  if (bin >= counts_.size()) counts_.resize(bin + 1);
  const std::size_t which = cause(stem(why.text));
  if (which >= counts_[bin].size()) counts_[bin].resize(which + 1);
  ++counts_[bin][which];
}

std::size_t GroupHistogram::cause(std::string_view text) {
  const auto found = std::find(causes_.begin(), causes_.end(), text);
  const auto index = static_cast<std::size_t>(found - causes_.begin());
  if (found != causes_.end() || causes_.size() == kMostCauses) return std::min(index, kMostCauses - 1);
  causes_.emplace_back(index + 1 < kMostCauses ? text : kOther);
  return index;
}

std::vector<GroupHistogram::Bin> GroupHistogram::bins() const {
  std::vector<Bin> all;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    all.push_back({first_size(i), first_size(i + 1) - 1, counts_[i]});
    all.back().commits.resize(causes_.size());
  }
  return all;
}

std::vector<std::string> GroupHistogram::causes() const {
  std::vector<std::string> words;
  for (const std::string& cause : causes_) words.push_back(without_numbers(cause));
  return words;
}

}  // namespace paceline::report
