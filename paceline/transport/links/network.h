// Links between hosts over one fabric. With TCP (tcp.h), sealed or not, a stranger can do no more than end a
// link. UCX (ucx.h) has RDMA and trusts its peers. Over plain TCP it is slower, and small messages wait
// longer behind large ones (docs/results.md), so it is for cards that have RDMA.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/transport/links/carrier.h"
#include "paceline/transport/links/fabric.h"

namespace paceline::links {

class Network {
 public:
  // `host`: a numeric address of this host. Errors: those of CarrierKind::open.
  static absl::StatusOr<Network> open(const std::string& host, const Fabric& fabric);

  const Fabric& fabric() const { return fabric_; }
  bool sealed() const { return fabric_.sealed; }

  // The same as Carrier's. Requires: keys if and only if links are sealed.
  absl::StatusOr<std::unique_ptr<LinkListener>> listen(int port, LinkGate gate) const;
  absl::StatusOr<std::unique_ptr<Link>> connect(const std::string& address, const std::string& name,
                                                const LinkOptions& options) const;

 private:
  Network(const Fabric& fabric, std::unique_ptr<const Carrier> carrier)
      : fabric_(fabric), carrier_(std::move(carrier)) {}

  Fabric fabric_;
  std::unique_ptr<const Carrier> carrier_;
};

}  // namespace paceline::links
