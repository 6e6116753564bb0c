// Stale synchronous parallel (Ho et al. 2013): every gradient commits alone; a replica more than s iterations
// ahead of the slowest waits for it. With SSP(0) no replica starts before all have finished the previous
// iteration.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/clock_board.h"
#include "paceline/decisions/policy/policy_text.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy {

class Ssp final : public SyncPolicy {
 public:
  // Requires: s ≥ 0.
  explicit Ssp(std::int64_t s) : s_(s) {}

  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time now, const Left& fact, Orders& orders) override;
  void ready(Time now, const Ready& fact, Orders& orders) override;
  bool commits_all(std::size_t live) const override { return live == 1; }
  // A replica released at gap s finishes at gap s + 1.
  Bounds bounds() const override { return {.gap = s_ + 1}; }

 private:
  void release_within_s(Orders& orders);

  const std::int64_t s_;
  ClockBoard clocks_;
  HeldReplicas held_;
};

struct SspSpec {
  static constexpr const char* kName = "ssp";
  static constexpr const char* kForm = "ssp:S";
  std::int64_t s = 3;

  static absl::StatusOr<SspSpec> parse(const PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<SyncPolicy> make() const;
  friend bool operator==(const SspSpec&, const SspSpec&) = default;
};

}  // namespace paceline::policy
