// The common part of both sides of an examination of hosts: findings on the wire, names and limits.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/tools/cli/host_findings.h"

namespace paceline::cli {

// The limit for measuring one link; a good link takes a second or two.
inline constexpr std::chrono::seconds kProbeLimit{60};

inline std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The path of a host's own mark, beside the first one's.
inline std::filesystem::path mark_of_host(const std::filesystem::path& first, int host) {
  return fmt::format("{}-host{}", first.string(), host);
}

inline void add_to_wire(const Finding& finding, wire::DoctorHello& hello) {
  wire::DoctorFinding& one = *hello.add_findings();
  one.set_what(finding.what);
  one.set_health(static_cast<std::int32_t>(finding.health));
  one.set_says(finding.says);
  one.set_fix(finding.fix);
}

// An unknown value of health counts as a failure.
inline Finding from_wire(const wire::DoctorFinding& one) {
  const bool known = one.health() == static_cast<std::int32_t>(Health::kOk) ||
                     one.health() == static_cast<std::int32_t>(Health::kWarn);
  return {one.what(), known ? static_cast<Health>(one.health()) : Health::kFail, one.says(), one.fix()};
}

}  // namespace paceline::cli
