// Pairs: a ready replica waits for one other, and the two commit together. This is an example of a policy:
// docs/extending.md.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/policy_text.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace example {

namespace policy = paceline::policy;
using paceline::Time;

class Pairs final : public policy::SyncPolicy {
 public:
  void joined(Time now, const policy::Joined& fact, policy::Orders& orders) override;
  void left(Time now, const policy::Left& fact, policy::Orders& orders) override;
  void ready(Time now, const policy::Ready& fact, policy::Orders& orders) override;
  // The policy has no bounds: the two fastest may go on together for ever.
  policy::Bounds bounds() const override { return {}; }

 private:
  void go_alone(policy::Orders& orders);

  std::set<paceline::ReplicaId> computing_;
  std::optional<policy::Contribution> waiting_;
};

// The text that a user writes for this policy, and the policy that it makes.
struct PairsSpec {
  static constexpr const char* kName = "pairs";
  static constexpr const char* kForm = "pairs";

  static absl::StatusOr<PairsSpec> parse(const policy::PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<policy::SyncPolicy> make() const;
  friend bool operator==(const PairsSpec&, const PairsSpec&) = default;
};

}  // namespace example
