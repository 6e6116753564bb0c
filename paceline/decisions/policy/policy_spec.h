// A policy as a user writes it: "bsp", "asp", "ssp:3", "dssp:3-15", "dssp:3-15:printed",
// "dssp:3-15:transient", "elastic-bsp:15", "elastic-bsp:15:average", "local-sgd:8", "backup:1",
// "groups:2+2+4:ssp:3", "cgp", "cgp:k_min=2:k_max=4:S=16:wait_max=50ms:grouping=dp".
//
// Each policy has a Spec beside it, which names it and makes it:
//   static constexpr const char *kName, *kForm;            "ssp", "ssp:S"
//   static absl::StatusOr<Spec> parse(const PolicyText&)   Errors: InvalidArgument, and what to write instead
//   std::string text() const                               in the form of parse()
//   std::unique_ptr<SyncPolicy> make() const
//   static std::vector<std::string> examples()             for tests that run over all policies
//   absl::Status check(const PolicyText&, std::int64_t replicas) const
//                                                          only if some numbers of replicas do not suit it
//                                                          PolicySpec is the table of all policies: a new
//                                                          policy is one more name there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/asp.h"
#include "paceline/decisions/policy/backup.h"
#include "paceline/decisions/policy/bsp.h"
#include "paceline/decisions/policy/cgp.h"
#include "paceline/decisions/policy/dssp.h"
#include "paceline/decisions/policy/elastic_bsp.h"
#include "paceline/decisions/policy/local_sgd.h"
#include "paceline/decisions/policy/policy_text.h"
#include "paceline/decisions/policy/ssp.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy {

// The policies that may stand between groups: all that make no groups of their own.
using UngroupedSpec = std::variant<BspSpec, AspSpec, SspSpec, DsspSpec, ElasticBspSpec, BackupSpec>;

struct GroupsSpec {
  static constexpr const char* kName = "groups";
  static constexpr const char* kForm = "groups:SIZES:POLICY";
  std::vector<std::int64_t> sizes;
  UngroupedSpec inner;

  static absl::StatusOr<GroupsSpec> parse(const PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<SyncPolicy> make() const;
  absl::Status check(const PolicyText& text, std::int64_t replicas) const;
  friend bool operator==(const GroupsSpec&, const GroupsSpec&) = default;
};

using PolicySpec = std::variant<BspSpec, AspSpec, SspSpec, DsspSpec, ElasticBspSpec, CgpSpec, LocalSgdSpec,
                                BackupSpec, GroupsSpec>;

// Errors: InvalidArgument that says what is wrong with the text and what to write instead.
absl::StatusOr<PolicySpec> parse_policy(const std::string& text);
// A list of policies, separated by commas.
absl::StatusOr<std::vector<PolicySpec>> parse_policies(const std::string& text);

// Whether a job with this many replicas can run under the policy as it is written. Errors: InvalidArgument,
// as above.
absl::Status check_replicas(const PolicySpec& spec, std::int64_t replicas);

// The policy's text, in the form of parse_policy.
std::string to_string(const PolicySpec& spec);

std::unique_ptr<SyncPolicy> make_policy(const PolicySpec& spec);

// The examples of every policy, in the form of parse_policy.
std::vector<std::string> example_policies();
// The first example of each policy.
std::vector<std::string> one_of_each_policy();

}  // namespace paceline::policy
