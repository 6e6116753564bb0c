// Links over TCP, for networks that others use too. Everything that is opened is bound to one address of this
// host. A stranger who reaches a listener's port, or changes packets on the way, can end a link or keep
// others from connecting for a while, and no more: bytes are checked before they count as frames, and go only
// into memory that the link names. Keys (seal.h) keep the links' contents secret and authentic.
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/transport/links/carrier.h"
#include "paceline/transport/links/socket_address.h"

namespace paceline::links {

class Tcp final : public Carrier {
 public:
  // `host`: a numeric address of this host. Errors: InvalidArgument, NotFound (no interface has it).
  static absl::StatusOr<Tcp> open(const std::string& host = "127.0.0.1");

 private:
  Tcp(std::string host, const SocketAddress& any_port) : host_(std::move(host)), any_port_(any_port) {}
  absl::StatusOr<std::unique_ptr<PortListener>> open_listener(int port) const override;
  absl::StatusOr<std::unique_ptr<FramePort>> open_port(const std::string& address) const override;

  std::string host_;
  SocketAddress any_port_;
};

}  // namespace paceline::links
