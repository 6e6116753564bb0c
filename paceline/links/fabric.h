// What links between hosts run over, and how a job names it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace paceline::links {

// kSealed: TCP, encrypted and authenticated. In the clear, for networks that only the job's hosts reach: TCP
// of our own, or UCX, for what has RDMA.
enum class Fabric { kSealed, kTcp, kUcx };

// "sealed", "tcp", "ucx".
std::string_view name_of(Fabric fabric);
std::optional<Fabric> fabric_named(std::string_view name);

// The faster one in the clear from this address of this host: UCX where its interface's card has RDMA, else
// TCP. Errors: NotFound (no interface has it), InvalidArgument.
absl::StatusOr<Fabric> fastest_in_the_clear(const std::string& host);

// Of that name, or with "auto" the fastest in the clear. Errors: the same.
absl::StatusOr<Fabric> fabric_of_host(const std::string& name, const std::string& host);

}  // namespace paceline::links
