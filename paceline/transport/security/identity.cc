#include "paceline/transport/security/identity.h"

#include <algorithm>

#include <fmt/format.h>

namespace paceline::security {

namespace {
constexpr std::string_view kScheme = "paceline://";
}  // namespace

std::string_view to_string(Role role) {
  constexpr std::array<std::string_view, kRoles.size()> kNames = {"coordinator", "server", "worker",
                                                                  "evaluator", "operator"};
  return kNames[static_cast<std::size_t>(role)];
}

std::string uri_of(const Identity& identity) {
  return fmt::format("{}{}/{}", kScheme, identity.job, to_string(identity.role));
}

std::optional<Identity> identity_of(std::string_view uri) {
  if (uri.substr(0, kScheme.size()) != kScheme) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const std::size_t slash = uri.find('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  const std::string_view name = uri.substr(slash + 1);
  const auto role =
      std::find_if(kRoles.begin(), kRoles.end(), [&](Role one) { return to_string(one) == name; });
  if (role == kRoles.end()) return std::nullopt;
  return Identity{std::string(uri.substr(0, slash)), *role};
}

std::string coordinator_name(const std::string& job) { return fmt::format("coordinator.{}.paceline", job); }

}  // namespace paceline::security
