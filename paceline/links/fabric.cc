#include "paceline/links/fabric.h"

#include <array>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/links/socket_address.h"

namespace paceline::links {

namespace {

constexpr std::array kFabrics{Fabric::kSealed, Fabric::kTcp, Fabric::kUcx};

}  // namespace

std::string_view name_of(Fabric fabric) {
  constexpr std::array<std::string_view, kFabrics.size()> kNames{"sealed", "tcp", "ucx"};
  return kNames[static_cast<std::size_t>(fabric)];
}

std::optional<Fabric> fabric_named(std::string_view name) {
  for (const Fabric fabric : kFabrics) {
    if (name_of(fabric) == name) return fabric;
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
  return absl::InvalidArgumentError(
      fmt::format("there is no fabric '{}'; write sealed, tcp, ucx or auto", name));
}

}  // namespace paceline::links
