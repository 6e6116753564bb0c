// Links over UCX: TCP, or RDMA where the interface's card has it; UCX chooses. One Ucx is one interface of
// this host, and everything it opens is bound to that one's address only. It outlives its links and
// listeners, which may live on different threads.
//
// UCX is not made for hostile networks: one who can reach its ports, or change packets on the way, can crash
// the process or write to its memory, keys or no keys. (Its TCP protocol names the addresses to write to.)
// So it is for networks that only this job's hosts reach; elsewhere links go over TCP (network.h chooses).
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/links/link.h"
#include "paceline/links/link_listener.h"

struct ucp_context;

namespace paceline::links {

class Ucx {
 public:
  // `host`: an address of this host, in numbers. Errors: InvalidArgument, NotFound (no interface has it),
  // Unavailable (UCX has no transport for it).
  static absl::StatusOr<Ucx> open(const std::string& host = "127.0.0.1");

  // Port 0: any that is free; the listener says which. Errors: Unavailable, e.g. the port is taken.
  absl::StatusOr<std::unique_ptr<LinkListener>> listen(int port, LinkGate gate) const;
  // To a listener's address. What does not answer ends the link. Errors: InvalidArgument, Unavailable.
  absl::StatusOr<std::unique_ptr<Link>> connect(const std::string& address, const std::string& name,
                                                const LinkOptions& options) const;

 private:
  struct Close {
    void operator()(ucp_context* context) const;
  };
  Ucx(ucp_context* context, std::string host) : context_(context), host_(std::move(host)) {}

  std::unique_ptr<ucp_context, Close> context_;
  std::string host_;
};

}  // namespace paceline::links
