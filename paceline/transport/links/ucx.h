// Links over UCX: TCP, or RDMA if the interface's card has it; UCX chooses. One Ucx is one interface of this
// host, and everything it opens is bound to that one's address only.
//
// UCX is not made for hostile networks: a stranger who can reach its ports, or change packets on the way, can
// crash the process or write to its memory, even with keys. (Its TCP protocol names the addresses to write
// to.) So it is for networks that only this job's hosts reach; elsewhere links go over TCP (network.h
// chooses).
//
// If a peer is killed, UCX may tell its end before the last data that have come from it. A peer that closes its link waits
// until this process has them.
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/transport/links/carrier.h"

struct ucp_context;

namespace paceline::links {

class Ucx final : public Carrier {
 public:
  // `host`: a numeric address of this host. Errors: InvalidArgument, NotFound (no interface has it),
  // Unavailable (UCX has no transport for it).
  static absl::StatusOr<Ucx> open(const std::string& host = "127.0.0.1");

 private:
  struct Close {
    void operator()(ucp_context* context) const;
  };
  Ucx(ucp_context* context, std::string host) : context_(context), host_(std::move(host)) {}
  absl::StatusOr<std::unique_ptr<PortListener>> open_listener(int port) const override;
  absl::StatusOr<std::unique_ptr<FramePort>> open_port(const std::string& address) const override;

  std::unique_ptr<ucp_context, Close> context_;
  std::string host_;
};

}  // namespace paceline::links
