// Asynchronous parallel: every gradient commits alone and no replica waits. This is the fastest possible
// rate; the speeds determine the staleness.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/policy_text.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy {

class Asp final : public SyncPolicy {
 public:
  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time, const Left&, Orders&) override {}
  void ready(Time now, const Ready& fact, Orders& orders) override;
  bool commits_all(std::size_t live) const override { return live == 1; }
  Bounds bounds() const override { return {}; }
};

struct AspSpec {
  static constexpr const char* kName = "asp";
  static constexpr const char* kForm = "asp";

  static absl::StatusOr<AspSpec> parse(const PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<SyncPolicy> make() const;
  friend bool operator==(const AspSpec&, const AspSpec&) = default;
};

}  // namespace paceline::policy
