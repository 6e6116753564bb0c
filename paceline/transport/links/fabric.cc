#include "paceline/transport/links/fabric.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/status_macros.h"
#include "paceline/transport/links/carrier.h"
#include "paceline/transport/links/socket_address.h"

namespace paceline::links {

std::string_view name_of(const Fabric& fabric) { return fabric.sealed ? "sealed" : fabric.carrier; }

std::optional<Fabric> fabric_named(std::string_view name) {
  if (name == name_of(Fabric::kSealed)) return Fabric::kSealed;
  for (const CarrierKind& carrier : carriers()) {
    if (name == carrier.name) return Fabric{carrier.name};
  }
  return std::nullopt;
}

absl::StatusOr<Fabric> fastest_in_the_clear(const std::string& host) {
  PACELINE_ASSIGN_OR_RETURN(const SocketAddress address, parse_host(host, 0));
  PACELINE_ASSIGN_OR_RETURN(const std::string interface, interface_of(address));
  return rdma_devices(interface).empty() ? Fabric::kTcp : Fabric::kUcx;
}

absl::StatusOr<Fabric> fabric_of_host(const std::string& name, const std::string& host) {
  if (name == "auto") return fastest_in_the_clear(host);
  if (const auto fabric = fabric_named(name)) return *fabric;
  std::vector<std::string> names = {"auto", std::string(name_of(Fabric::kSealed))};
  for (const CarrierKind& carrier : carriers()) names.emplace_back(carrier.name);
  return absl::InvalidArgumentError(
      fmt::format("there is no fabric '{}'; write one of {}", name, fmt::join(names, ", ")));
}

}  // namespace paceline::links
