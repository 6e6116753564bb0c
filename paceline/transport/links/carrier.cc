#include "paceline/transport/links/carrier.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/transport/links/tcp.h"
#include "paceline/transport/links/ucx.h"

namespace paceline::links {

namespace {

template <class Kind>
absl::StatusOr<std::unique_ptr<Carrier>> open_carrier(const std::string& host) {
  PACELINE_ASSIGN_OR_RETURN(Kind kind, Kind::open(host));
  return std::make_unique<Kind>(std::move(kind));
}

constexpr CarrierKind kCarriers[] = {
    {"tcp", open_carrier<Tcp>},
    {"ucx", open_carrier<Ucx>},
};

}  // namespace

std::span<const CarrierKind> carriers() { return kCarriers; }

absl::StatusOr<std::unique_ptr<LinkListener>> Carrier::listen(int port, LinkGate gate) const {
  PACELINE_ASSIGN_OR_RETURN(auto ports, open_listener(port));
  auto listener = std::make_unique<LinkListener>(std::move(ports), std::move(gate));
  if (!listener->watched()) return absl::ResourceExhaustedError("a listener gets no descriptors");
  return listener;
}

absl::StatusOr<std::unique_ptr<Link>> Carrier::connect(const std::string& address, const std::string& name,
                                                       const LinkOptions& options) const {
  auto port = open_port(address);
  if (!port.ok()) {
    return absl::Status(port.status().code(),
                        fmt::format("link to {}: {}", address, std::string(port.status().message())));
  }
  return std::make_unique<Link>(*std::move(port), address, name, options);
}

}  // namespace paceline::links
