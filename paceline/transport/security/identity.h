// The identity of a process among the others of its job: a role in a job. Certificates have it as a URI,
// paceline://JOB/ROLE, in their subject alternative name. Pure; anybody may call it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::security {

// An operator watches the run and may stop it. The process that starts a host's processes is one.
enum class Role { kCoordinator, kServer, kWorker, kEvaluator, kOperator };
inline constexpr std::array<Role, 5> kRoles = {Role::kCoordinator, Role::kServer, Role::kWorker,
                                               Role::kEvaluator, Role::kOperator};

// "worker".
std::string_view to_string(Role role);

struct Identity {
  std::string job;
  Role role = Role::kWorker;
  friend bool operator==(const Identity&, const Identity&) = default;
};

std::string uri_of(const Identity& identity);
// Nothing if the text is no such URI.
std::optional<Identity> identity_of(std::string_view uri);

// The DNS name in a coordinator's certificate, which its peers demand wherever it runs.
std::string coordinator_name(const std::string& job);

}  // namespace paceline::security
