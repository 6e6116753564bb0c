#include "paceline/simulation/cluster_sim/judge.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/exit_reason.h"

namespace paceline::cluster_sim {

namespace {

std::string words(const absl::Status& status) {
  return status.ok() ? "all is well" : std::string(status.message());
}

// Only processes that computed know this reason; the coordinator does not.
bool says_more(const std::string& line) { return line.starts_with("every replica lost a worker"); }

// The launcher that has the coordinator has to report the same end as the coordinator.
std::optional<std::string> complaint_about_leader(const RunEnd& end, const absl::Status& said) {
  if (!end.run) return std::nullopt;
  if (said.message() == end.run->message() && said.ok() == end.run->ok()) return std::nullopt;
  if (end.run->ok() && says_more(words(said))) return std::nullopt;
  // Otherwise a process that could not start ended the run, and the launcher says why.
  if ((!end.ever_trained || end.killed_at_start) && !said.ok()) return std::nullopt;
  return fmt::format("the run ended ({}), and its launcher says: {}", words(*end.run), words(said));
}

}  // namespace

std::optional<std::string> complaint_about(const RunEnd& end) {
  // A run may fail if a disk was full, if it had not begun to train, or if it was asked to stop and lost a
  // server.
  const bool may_fail = end.full_disks || !end.ever_trained || end.stopped || end.killed_at_start ||
                        end.needs_more_hosts || end.nobody_can_lead;
  for (int host = 0; host < std::ssize(end.launchers); ++host) {
    const auto& said = end.launchers[static_cast<std::size_t>(host)];
    if (!said) continue;
    const std::string line(said->message());
    if (!said->ok() && (line.empty() || line.find('\n') != std::string::npos))
      return fmt::format("host {} does not end with one line: {}", host, line);
    if (!said->ok() && exit_reason_of(*said) == ExitReason::kHostGivenUp) {
      // One launcher may have the processes of all hosts.
      const bool any = end.launchers.size() == 1 && !end.given_up.empty();
      if (any || std::find(end.given_up.begin(), end.given_up.end(), HostRank(host)) != end.given_up.end())
        continue;
      return fmt::format("host {} was not given up, and says: {}", host, line);
    }
    if (host == end.led_by) {
      if (auto complaint = complaint_about_leader(end, *said)) return complaint;
    }
    if (!said->ok() && !may_fail) return fmt::format("the run failed: {}", line);
  }
  if (!end.run || !end.run->ok() || end.stopped) return std::nullopt;
  if (!end.committed) return "the run is done, and there is no checkpoint";
  if (*end.committed != end.samples)
    return fmt::format("the run is done, and its last checkpoint has {} of {} samples", *end.committed,
                       end.samples);
  return std::nullopt;
}

}  // namespace paceline::cluster_sim
