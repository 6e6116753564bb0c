#include "paceline/records/stats/group_stats.h"

#include <algorithm>
#include <utility>

namespace paceline::report {

void GroupStats::add(Time at, const control::CommitRecord& commit, Group::Members drawn, std::size_t live) {
  const std::int64_t size = std::ssize(commit.members);
  histogram_.add(size, commit.why);
  if (size > 1) formed_.add({at, commit.version, size, std::move(drawn), commit.why});
  ++commits_;
  gradients_ += size;
  size_max_ = std::max(size_max_, size);
  size_of_late_ +=
      (static_cast<double>(size) - size_of_late_) / static_cast<double>(std::min(commits_, kLateCommits));
  between_ = between_ || (size > 1 && size < static_cast<std::int64_t>(live));
  latest_size_ = size;
  latest_why_ = commit.why;
  learning_rate_max_ = std::max(learning_rate_max_, commit.learning_rate);
  fraction_max_ = std::max(fraction_max_, commit.fraction);
}

GroupSummary GroupStats::summary() const {
  GroupSummary summary;
  summary.gradients = gradients_;
  summary.between = between_;
  summary.size_max = size_max_;
  summary.latest_size = latest_size_;
  summary.latest_cause = cause_of(latest_why_);
  summary.learning_rate_max = learning_rate_max_;
  summary.fraction_max = fraction_max_;
  if (commits_ == 0) return summary;
  summary.size_mean = static_cast<double>(gradients_) / static_cast<double>(commits_);
  summary.size_of_late = size_of_late_;
  return summary;
}

}  // namespace paceline::report
