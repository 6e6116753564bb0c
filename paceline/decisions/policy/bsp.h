// Bulk synchronous parallel: all commit together, then all are released together. The slowest sets the pace,
// and no gradient is ever stale. The gradients of a round do not depend on who finished first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/clock_board.h"
#include "paceline/decisions/policy/policy_text.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy {

class Bsp : public SyncPolicy {
 public:
  // The replica starts at once on the current version; the round under way waits for it too.
  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time now, const Left& fact, Orders& orders) override;
  void ready(Time now, const Ready& fact, Orders& orders) override;
  bool commits_whole_rounds() const override { return true; }
  bool commits_all(std::size_t) const override { return true; }
  Bounds bounds() const override { return {.gap = 1, .version_staleness = 0}; }

 private:
  void commit_if_complete(Orders& orders);

  ClockBoard clocks_;
  std::vector<Contribution> finished_;  // gradients of this round
};

struct BspSpec {
  static constexpr const char* kName = "bsp";
  static constexpr const char* kForm = "bsp";

  static absl::StatusOr<BspSpec> parse(const PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<SyncPolicy> make() const;
  friend bool operator==(const BspSpec&, const BspSpec&) = default;
};

}  // namespace paceline::policy
