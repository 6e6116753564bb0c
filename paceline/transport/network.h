// What links between hosts run over. Sealed ones go over TCP of our own (tcp.h), which does no more than end
// a link whatever a stranger sends. Links in the clear are for a network that only this job's hosts reach,
// and go over UCX (ucx.h), which takes the fastest way there is, RDMA among them, and trusts its peers.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include <absl/status/statusor.h>

#include "paceline/transport/link.h"
#include "paceline/transport/link_listener.h"
#include "paceline/transport/tcp.h"
#include "paceline/transport/ucx.h"

namespace paceline::transport {

class Network {
 public:
  // `host`: an address of this host, in numbers. Errors: as Tcp::open and Ucx::open.
  static absl::StatusOr<Network> open(const std::string& host, bool sealed);

  bool sealed() const { return std::holds_alternative<Tcp>(over_); }

  // As those of Tcp and Ucx. Requires: links with keys where they are sealed, and without where not.
  absl::StatusOr<std::unique_ptr<LinkListener>> listen(int port, LinkGate gate) const;
  absl::StatusOr<std::unique_ptr<Link>> connect(const std::string& address, const std::string& name,
                                                const LinkOptions& options) const;

 private:
  explicit Network(std::variant<Tcp, Ucx> over) : over_(std::move(over)) {}

  std::variant<Tcp, Ucx> over_;
};

}  // namespace paceline::transport
