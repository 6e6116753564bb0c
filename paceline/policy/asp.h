// Asynchronous parallel: every gradient commits alone and nobody waits. The fastest possible rate, at
// whatever staleness the speeds give.
#pragma once

#include "paceline/policy/sync_policy.h"

namespace paceline::policy {

class Asp final : public SyncPolicy {
 public:
  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time, const Left&, Orders&) override {}
  void ready(Time now, const Ready& fact, Orders& orders) override;
  Bounds bounds() const override { return {}; }
};

}  // namespace paceline::policy
