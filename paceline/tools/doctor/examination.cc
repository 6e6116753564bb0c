#include "paceline/tools/doctor/examination.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::doctor {

namespace {

// If clocks are further apart, reports of several hosts are hard to read, and certificates may be good on one
// host only.
constexpr double kFarApart_s = 1;
// A link slower than this part of the fastest one makes a run's rounds wait.
constexpr double kSlowPart = 0.25;

constexpr char kMendLink[] =
    "let the hosts reach each other on all TCP ports (a firewall?), and by the addresses above (--address)";
constexpr char kMendSlow[] = "look at its cable, its switch port and who else uses them";

std::string seconds(double time_s) {
  const double size = std::abs(time_s);
  if (size < 1e-3) return fmt::format("{:.0f} µs", size * 1e6);
  return size < 1 ? fmt::format("{:.1f} ms", size * 1e3) : fmt::format("{:.1f} s", size);
}

Finding arrival(const ClusterFacts& facts) {
  return {"arrival", Health::kFail, fmt::format("did not come within {} s", facts.waited_s),
          "run `paceline doctor` with this job and its rank there at the same time; if it ran, its own last "
          "line says why it could not come: certificates, token, or a firewall in front of host 0"};
}

Finding program(const HostFacts& host, const HostFacts& first) {
  if (host.version != first.version) {
    return {"program", Health::kFail,
            fmt::format("version {}, and host 0 has {}", host.version, first.version),
            "install the same version on all hosts"};
  }
  if (host.build != first.build) {
    return {"program", Health::kWarn,
            fmt::format("version {}, but another build than host 0's", host.version),
            "copy one program to all hosts; two builds may differ in the last bits of what they compute"};
  }
  return {"program", Health::kOk, fmt::format("version {}, build {}", host.version, host.build)};
}

Finding job(const HostFacts& host) {
  if (host.other_keys.empty()) return {"job file", Health::kOk, "as host 0's"};
  return {"job file", Health::kFail,
          fmt::format("another job than host 0's: {}", fmt::join(host.other_keys, "; ")),
          "copy host 0's job file there, and give the same --set"};
}

Finding data(const HostFacts& host, const HostFacts& first) {
  if (host.data == first.data) return {"data set", Health::kOk, host.data};
  return {"data set", Health::kFail, fmt::format("{}, and host 0 has {}", host.data, first.data),
          "copy host 0's data there"};
}

Finding fabric(const HostFacts& host, const HostFacts& first) {
  if (host.fabric == first.fabric) return {"links over", Health::kOk, host.fabric};
  return {"links over", Health::kFail, fmt::format("{}, and host 0's over {}", host.fabric, first.fabric),
          "set cluster.fabric to one that all have, \"tcp\" for example"};
}

Finding clocks(const ClockFacts& clock) {
  const std::string says =
      fmt::format("{} ± {} {} host 0's", seconds(clock.ahead_s), seconds(clock.uncertainty_s),
                  clock.ahead_s < 0 ? "behind" : "ahead of");
  if (std::abs(clock.ahead_s) - clock.uncertainty_s > kFarApart_s)
    return {"clocks", Health::kWarn, says, "let the network set both: timedatectl set-ntp true"};
  return {"clocks", Health::kOk, says};
}

Finding folder(const HostFacts& host, const ClusterFacts& facts) {
  if (host.folder->empty() && !facts.shared_folder)
    return {"run folder", Health::kOk,
            fmt::format("{}, on this host alone; the others send it their parts of a checkpoint",
                        facts.runs_dir)};
  if (host.folder->empty())
    return {"run folder", Health::kOk, fmt::format("{}, on a disk shared with host 0", facts.runs_dir)};
  return {"run folder", Health::kFail, *host.folder,
          facts.shared_folder
              ? fmt::format("mount one disk at {} on all hosts, or name one with runs_dir", facts.runs_dir)
              : "let this user write there, or name another folder with runs_dir"};
}

// Compares a host with the first one.
void compare(int rank, const ClusterFacts& facts, std::vector<HostFinding>& all) {
  const HostFacts& host = facts.hosts[static_cast<std::size_t>(rank)];
  const HostFacts& first = facts.hosts.front();
  if (!host.came) return all.push_back({rank, arrival(facts)});
  for (const Finding& one : host.own) all.push_back({rank, one});
  all.push_back({rank, program(host, first)});
  all.push_back({rank, job(host)});
  all.push_back({rank, fabric(host, first)});
  if (!host.data.empty() && !first.data.empty()) all.push_back({rank, data(host, first)});
  if (rank > 0 && host.clock) all.push_back({rank, clocks(*host.clock)});
  if (!host.left.empty()) {
    all.push_back(
        {rank, {"connection", Health::kFail, host.left, "read its own last line, and run the doctor again"}});
  } else if (host.folder) {
    all.push_back({rank, folder(host, facts)});
  }
}

double best_of(const LinkFacts& link) { return std::max(link.to_a_mb_s, link.to_b_mb_s); }
double worst_of(const LinkFacts& link) { return std::min(link.to_a_mb_s, link.to_b_mb_s); }
bool has(const LinkFacts& link, int host) { return link.a == host || link.b == host; }

// The speed of the fastest link that `which` holds for; nothing if there is none.
template <class Which>
std::optional<double> fastest(const ClusterFacts& facts, const Which& which) {
  std::optional<double> best;
  for (const LinkFacts& link : facts.links) {
    if (link.error.empty() && which(link)) best = std::max(best.value_or(0), best_of(link));
  }
  return best;
}

// A host whose links are all slow is named once, not with each link.
void look_at_speed(const ClusterFacts& facts, std::vector<HostFinding>& all) {
  const double best = fastest(facts, [](const LinkFacts&) { return true; }).value_or(0);
  std::vector<bool> slow(facts.hosts.size());
  for (std::size_t host = 0; host < facts.hosts.size(); ++host) {
    const auto own = fastest(facts, [&](const LinkFacts& link) { return has(link, static_cast<int>(host)); });
    slow[host] = own && *own < kSlowPart * best;
    if (!slow[host]) continue;
    all.push_back(
        {static_cast<int>(host),
         {"links", Health::kWarn,
          fmt::format("carry {:.0f} MB/s at most, the best between other hosts {:.0f}; a run's rounds wait "
                      "for the slowest",
                      *own, best),
          kMendSlow}});
  }
  for (const LinkFacts& link : facts.links) {
    const bool known = slow[static_cast<std::size_t>(link.a)] || slow[static_cast<std::size_t>(link.b)];
    if (known || !link.error.empty() || worst_of(link) >= kSlowPart * best) continue;
    all.push_back({link.b,
                   {fmt::format("link to host {}", link.a), Health::kWarn,
                    fmt::format("carries {:.0f} MB/s there and {:.0f} back, the best link {:.0f}",
                                link.to_a_mb_s, link.to_b_mb_s, best),
                    kMendSlow}});
  }
}

void look_at_links(const ClusterFacts& facts, std::vector<HostFinding>& all) {
  for (const LinkFacts& link : facts.links) {
    if (link.error.empty()) continue;
    all.push_back({link.b, {fmt::format("link to host {}", link.a), Health::kFail, link.error, kMendLink}});
  }
  look_at_speed(facts, all);
}

}  // namespace

std::vector<HostFinding> examine(const ClusterFacts& facts) {
  std::vector<HostFinding> all;
  for (int host = 0; host < static_cast<int>(facts.hosts.size()); ++host) compare(host, facts, all);
  look_at_links(facts, all);
  return all;
}

bool any_failed(const std::vector<HostFinding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const HostFinding& one) { return one.finding.health == Health::kFail; });
}

}  // namespace paceline::doctor
