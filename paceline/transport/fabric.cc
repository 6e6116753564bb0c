#include "paceline/transport/fabric.h"

#include <array>

#include "paceline/base/status_macros.h"
#include "paceline/transport/socket_address.h"

namespace paceline::transport {

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

}  // namespace paceline::transport
