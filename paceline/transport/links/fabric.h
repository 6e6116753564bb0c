// The transport of links between hosts, and its name in a job.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace paceline::links {

// A carrier (carrier.h), and whether links are encrypted and authenticated. In the clear is for networks that
// only the job's hosts reach.
struct Fabric {
  std::string_view carrier;  // a name of the table, which lives as long as the program
  bool sealed = false;

  static const Fabric kSealed, kTcp, kUcx;
  friend bool operator==(const Fabric&, const Fabric&) = default;
};
inline constexpr Fabric Fabric::kSealed{"tcp", true};
inline constexpr Fabric Fabric::kTcp{"tcp"};
inline constexpr Fabric Fabric::kUcx{"ucx"};

// "sealed", or the carrier's name.
std::string_view name_of(const Fabric& fabric);
std::optional<Fabric> fabric_named(std::string_view name);

// The fastest fabric in the clear from this address of this host: UCX if its interface's card has RDMA, else
// TCP. Errors: NotFound (no interface has the address), InvalidArgument.
absl::StatusOr<Fabric> fastest_in_the_clear(const std::string& host);

// The fabric of that name; "auto": the fastest in the clear. Errors: the same.
absl::StatusOr<Fabric> fabric_of_host(const std::string& name, const std::string& host);

}  // namespace paceline::links
