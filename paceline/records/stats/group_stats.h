// The part of RunStats about commits as groups of gradients that became one update: their sizes and why they
// closed, the size of the latest ones, and single groups of several gradients, the first and the latest of a
// long run. A commit costs O(members), memory is bounded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "paceline/decisions/control/orders.h"
#include "paceline/records/stats/first_and_latest.h"
#include "paceline/records/stats/group_histogram.h"
#include "paceline/records/stats/history.h"
#include "paceline/records/stats/summary.h"

namespace paceline::report {

class GroupStats {
 public:
  static constexpr std::size_t kFirstGroups = 2000;
  static constexpr std::size_t kLatestGroups = 500;
  // "Of late" means about this many commits.
  static constexpr std::int64_t kLateCommits = 20;

  // `drawn`: the members with a lane. `live`: the replicas that take part in the run now.
  void add(Time at, const control::CommitRecord& commit, Group::Members drawn, std::size_t live);

  GroupSummary summary() const;
  GroupHistory history() const { return {histogram_, formed_.kept(), formed_.left_out()}; }

 private:
  GroupHistogram histogram_;
  FirstAndLatest<Group> formed_{kFirstGroups, kLatestGroups};
  std::int64_t commits_ = 0;
  std::int64_t gradients_ = 0;
  std::int64_t size_max_ = 0;
  double size_of_late_ = 0;
  bool between_ = false;
  std::int64_t latest_size_ = 0;
  policy::Reason latest_why_;
  double learning_rate_max_ = 0;
  double fraction_max_ = 0;
};

}  // namespace paceline::report
