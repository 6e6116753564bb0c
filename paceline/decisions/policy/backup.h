// Bulk synchronous parallel with c backup workers (Chen, Pan, Monga, Bengio, Jozefowicz 2016, Revisiting
// Distributed Synchronous SGD, arXiv 1604.00981): of N live replicas the first N − c that are ready commit,
// at least one, and are released together. So no replica waits for up to c stragglers at a time. With c = 0
// it is BSP.
//
// A late replica goes on computing. When it is ready, its gradient is of an older version than the newest.
// The gradient is discarded, its samples go back to the queue, and the replica starts at once on the newest
// version, in the round under way [ours: the paper's late gradients are dropped with their samples]. When a
// round ends, at most c replicas are late and at least one is not, so enough replicas for the next round
// compute on its version. If those leave, a late replica takes their place when it is ready. No replica waits
// for ever.
//
// The policy promises that no gradient is ever stale. The gap is not bounded: the clock counts finished
// iterations, discarded ones too, and a replica that is always late falls behind without limit. It also gets
// the same samples again, because they are the first in the queue. They are committed when the replica is on
// time once, or at the end of the queue, when the others are parked and it is alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/policy_text.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy {

class Backup final : public SyncPolicy {
 public:
  // `spare` is c. Requires: spare ≥ 0.
  explicit Backup(std::int64_t spare) : spare_(spare) {}

  // The replica starts at once on the newest version, and the round under way needs one more.
  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time now, const Left& fact, Orders& orders) override;
  void ready(Time now, const Ready& fact, Orders& orders) override;
  bool commits_whole_rounds() const override { return spare_ == 0; }
  // With spares even a lone replica may be late: then its gradient is discarded.
  bool commits_all(std::size_t) const override { return spare_ == 0; }
  Bounds bounds() const override { return {.version_staleness = 0}; }

 private:
  void commit_if_enough(Orders& orders);

  const std::int64_t spare_;
  std::int64_t live_ = 0;
  std::vector<Contribution> finished_;  // gradients of this round
};

struct BackupSpec {
  static constexpr const char* kName = "backup";
  static constexpr const char* kForm = "backup:C";
  std::int64_t spare = 1;

  static absl::StatusOr<BackupSpec> parse(const PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<SyncPolicy> make() const;
  // A round needs at least one replica on time.
  absl::Status check(const PolicyText& text, std::int64_t replicas) const;
  friend bool operator==(const BackupSpec&, const BackupSpec&) = default;
};

}  // namespace paceline::policy
