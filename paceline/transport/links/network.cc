#include "paceline/transport/links/network.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::links {

absl::StatusOr<Network> Network::open(const std::string& host, const Fabric& fabric) {
  const auto all = carriers();
  const auto kind = std::find_if(all.begin(), all.end(),
                                 [&](const CarrierKind& one) { return fabric.carrier == one.name; });
  PACELINE_CHECK(kind != all.end(), "no carrier '{}'", fabric.carrier);
  PACELINE_ASSIGN_OR_RETURN(auto carrier, kind->open(host));
  return Network(fabric, std::move(carrier));
}

absl::StatusOr<std::unique_ptr<LinkListener>> Network::listen(int port, LinkGate gate) const {
  gate.accept = [accept = std::move(gate.accept), sealed = sealed()](const std::string& name) {
    absl::StatusOr<LinkOptions> options = accept(name);
    PACELINE_CHECK(!options.ok() || options->keys.has_value() == sealed, "keys do not fit the network");
    return options;
  };
  return carrier_->listen(port, std::move(gate));
}

absl::StatusOr<std::unique_ptr<Link>> Network::connect(const std::string& address, const std::string& name,
                                                       const LinkOptions& options) const {
  PACELINE_CHECK(options.keys.has_value() == sealed(), "keys do not fit the network");
  return carrier_->connect(address, name, options);
}

}  // namespace paceline::links
