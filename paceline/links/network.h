// Links between hosts over one fabric. TCP (tcp.h), sealed or not, does no more than end a link whatever a
// stranger sends. UCX (ucx.h) has RDMA and trusts its peers. Over plain TCP it is the slower one, and what is
// small waits longer behind what is large (docs/results.md), so it is for cards that have RDMA.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include <absl/status/statusor.h>

#include "paceline/links/fabric.h"
#include "paceline/links/link.h"
#include "paceline/links/link_listener.h"
#include "paceline/links/tcp.h"
#include "paceline/links/ucx.h"

namespace paceline::links {

class Network {
 public:
  // `host`: an address of this host, in numbers. Errors: as Tcp::open and Ucx::open.
  static absl::StatusOr<Network> open(const std::string& host, Fabric fabric);

  Fabric fabric() const { return fabric_; }
  bool sealed() const { return fabric_ == Fabric::kSealed; }

  // As those of Tcp and Ucx. Requires: links with keys where they are sealed, and without where not.
  absl::StatusOr<std::unique_ptr<LinkListener>> listen(int port, LinkGate gate) const;
  absl::StatusOr<std::unique_ptr<Link>> connect(const std::string& address, const std::string& name,
                                                const LinkOptions& options) const;

 private:
  Network(Fabric fabric, std::variant<Tcp, Ucx> over) : fabric_(fabric), over_(std::move(over)) {}

  Fabric fabric_;
  std::variant<Tcp, Ucx> over_;
};

}  // namespace paceline::links
