// A carrier moves links' data from one host to another: TCP, or UCX. It moves frames (frame_port.h) without
// looking into them: the link handles seals, names and beats. docs/extending.md shows a complete example.
//
// One object is one address of this host. It outlives its links and listeners, which may live on different
// threads.
#pragma once

#include <memory>
#include <span>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/transport/links/frame_port.h"
#include "paceline/transport/links/link.h"
#include "paceline/transport/links/link_listener.h"

namespace paceline::links {

class Carrier {
 public:
  virtual ~Carrier() = default;

  // Listens on `port`; 0: any free one, which the listener knows. Errors: Unavailable, for example if the
  // port is taken.
  absl::StatusOr<std::unique_ptr<LinkListener>> listen(int port, LinkGate gate) const;
  // Connects to a listener's address. If it does not answer, the link ends. Errors: InvalidArgument,
  // Unavailable, ResourceExhausted.
  absl::StatusOr<std::unique_ptr<Link>> connect(const std::string& address, const std::string& name,
                                                const LinkOptions& options) const;

 private:
  // The two functions of a carrier. Errors: as above.
  virtual absl::StatusOr<std::unique_ptr<PortListener>> open_listener(int port) const = 0;
  virtual absl::StatusOr<std::unique_ptr<FramePort>> open_port(const std::string& address) const = 0;
};

// A line of the table of carriers: its name in job files (cluster.fabric), and how it is opened on a numeric
// address of this host. Errors of open: InvalidArgument, NotFound (no interface has the address), Unavailable
// (it cannot use that interface).
struct CarrierKind {
  const char* name;
  absl::StatusOr<std::unique_ptr<Carrier>> (*open)(const std::string& host);
};

// The table: a new carrier is one line in carrier.cc.
std::span<const CarrierKind> carriers();

}  // namespace paceline::links
