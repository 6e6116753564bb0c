#include "paceline/links/network.h"

#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::links {

absl::StatusOr<Network> Network::open(const std::string& host, Fabric fabric) {
  if (fabric == Fabric::kUcx) {
    PACELINE_ASSIGN_OR_RETURN(Ucx ucx, Ucx::open(host));
    return Network(fabric, std::move(ucx));
  }
  PACELINE_ASSIGN_OR_RETURN(Tcp tcp, Tcp::open(host));
  return Network(fabric, std::move(tcp));
}

absl::StatusOr<std::unique_ptr<LinkListener>> Network::listen(int port, LinkGate gate) const {
  gate.accept = [accept = std::move(gate.accept), sealed = sealed()](const std::string& name) {
    absl::StatusOr<LinkOptions> options = accept(name);
    PACELINE_CHECK(!options.ok() || options->keys.has_value() == sealed, "keys do not fit the network");
    return options;
  };
  return std::visit([&](const auto& over) { return over.listen(port, std::move(gate)); }, over_);
}

absl::StatusOr<std::unique_ptr<Link>> Network::connect(const std::string& address, const std::string& name,
                                                       const LinkOptions& options) const {
  PACELINE_CHECK(options.keys.has_value() == sealed(), "keys do not fit the network");
  return std::visit([&](const auto& over) { return over.connect(address, name, options); }, over_);
}

}  // namespace paceline::links
