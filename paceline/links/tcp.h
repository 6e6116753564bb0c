// Links over TCP, for networks that others use too. Everything that is opened is bound to one address of this
// host. One who reaches a listener's port or changes packets on the way, can end a link or keep others from
// connecting for a while, and no more: what comes is taken for frames only once it has been checked, and goes
// only where the link says. Keys (seal.h) keep what links carry secret and true.
//
// Links and listeners may live on different threads.
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/links/link.h"
#include "paceline/links/link_listener.h"
#include "paceline/links/socket_address.h"

namespace paceline::links {

class Tcp {
 public:
  // `host`: an address of this host, in numbers. Errors: InvalidArgument, NotFound (no interface has it).
  static absl::StatusOr<Tcp> open(const std::string& host = "127.0.0.1");

  // Port 0: any that is free; the listener says which. Errors: Unavailable, e.g. the port is taken.
  absl::StatusOr<std::unique_ptr<LinkListener>> listen(int port, LinkGate gate) const;
  // To a listener's address. What does not answer ends the link. Errors: InvalidArgument, Unavailable.
  absl::StatusOr<std::unique_ptr<Link>> connect(const std::string& address, const std::string& name,
                                                const LinkOptions& options) const;

 private:
  Tcp(std::string host, const SocketAddress& any_port) : host_(std::move(host)), any_port_(any_port) {}

  std::string host_;
  SocketAddress any_port_;
};

}  // namespace paceline::links
