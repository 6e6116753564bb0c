// Hosts on one machine: network namespaces joined by a bridge, with links of a given bandwidth that can be
// cut and joined again. For tests and benchmarks of traffic between hosts; needs root, and iproute2.
//
// Nothing has a name outside: each namespace lives as long as a process of this object's, and those die with
// the process that made it, however that ends. So there is nothing to clean up, and nothing to collide with.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::testing {

class Namespaces {
 public:
  // `hosts` namespaces, each with an interface "eth0" that reaches all others, and "lo". `mbit`: bandwidth of
  // each link and way, in Mb/s; 0: as fast as the machine can. Errors: PermissionDenied, with what is
  // missing.
  static absl::StatusOr<Namespaces> create(int hosts, int mbit = 0);
  Namespaces(Namespaces&& other) noexcept : keepers_(std::move(other.keepers_)) { other.keepers_.clear(); }
  Namespaces& operator=(Namespaces&&) = delete;
  ~Namespaces();

  // The address of a host, from 0: "10.77.0.1" and so on.
  static std::string address(int host);
  // The host's IPv6 address: "fd77::1" and so on.
  static std::string ipv6_address(int host);
  // Moves the calling process to a host. Requires: the process has one thread, for example after a fork.
  // False when it cannot.
  bool enter(int host) const;
  // The words before a command that make it run on a host.
  std::string enter_command(int host) const;
  // From now on a host's link has this bandwidth, both ways. Requires: it was as fast as the machine can.
  // False when it cannot.
  bool set_bandwidth(int host, int mbit) const;
  // From now on packets of host `from` do not reach host `to`. False when it cannot.
  bool set_unreachable(int from, int to) const;
  // Cuts a host's link, or joins it again. False when it cannot.
  bool set_link(int host, bool up) const;

 private:
  Namespaces() = default;
  // The last process keeps the bridge's namespace.
  std::vector<pid_t> keepers_;
};

}  // namespace paceline::testing
