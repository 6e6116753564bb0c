// A policy as a user writes it: "bsp", "asp", "ssp:3", "dssp:3-15", "dssp:3-15:printed",
// "dssp:3-15:transient", "elastic-bsp:15", "elastic-bsp:15:average", "local-sgd:8", "backup:1",
// "groups:2+2+4:ssp:3", "cgp", "cgp:k_min=2:k_max=4:S=16:wait_max=50ms:grouping=dp".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/policy/cgp.h"
#include "paceline/policy/dssp.h"
#include "paceline/policy/sync_policy.h"

namespace paceline::policy {

struct BspSpec {
  friend bool operator==(const BspSpec&, const BspSpec&) = default;
};
struct AspSpec {
  friend bool operator==(const AspSpec&, const AspSpec&) = default;
};
struct LocalSgdSpec {
  std::int64_t steps = 1;
  friend bool operator==(const LocalSgdSpec&, const LocalSgdSpec&) = default;
};
struct SspSpec {
  std::int64_t s = 3;
  friend bool operator==(const SspSpec&, const SspSpec&) = default;
};
struct DsspSpec {
  std::int64_t lower = 3;
  std::int64_t upper = 15;
  DsspReading reading = DsspReading::kBounded;
  friend bool operator==(const DsspSpec&, const DsspSpec&) = default;
};
struct ElasticBspSpec {
  std::int64_t look_ahead = 15;
  bool average = false;
  friend bool operator==(const ElasticBspSpec&, const ElasticBspSpec&) = default;
};
struct BackupSpec {
  std::int64_t spare = 1;
  friend bool operator==(const BackupSpec&, const BackupSpec&) = default;
};
// What may stand between groups: whatever makes no groups of its own.
using UngroupedSpec = std::variant<BspSpec, AspSpec, SspSpec, DsspSpec, ElasticBspSpec, BackupSpec>;
struct GroupsSpec {
  std::vector<std::int64_t> sizes;
  UngroupedSpec inner;
  friend bool operator==(const GroupsSpec&, const GroupsSpec&) = default;
};
using CgpSpec = CgpOptions;
using PolicySpec = std::variant<BspSpec, AspSpec, SspSpec, DsspSpec, ElasticBspSpec, BackupSpec, GroupsSpec,
                                CgpSpec, LocalSgdSpec>;

// Errors: InvalidArgument that says what is wrong with the text and what to write instead.
absl::StatusOr<PolicySpec> parse_policy(const std::string& text);
// A list of them, separated by commas.
absl::StatusOr<std::vector<PolicySpec>> parse_policies(const std::string& text);

// Whether a job of so many replicas can be run under it as it is written. Errors: InvalidArgument, as above.
absl::Status check_replicas(const PolicySpec& spec, std::int64_t replicas);

// As parse_policy reads it.
std::string to_string(const PolicySpec& spec);

std::unique_ptr<SyncPolicy> make_policy(const PolicySpec& spec);

}  // namespace paceline::policy
