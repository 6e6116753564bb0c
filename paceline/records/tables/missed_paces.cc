#include "paceline/records/tables/missed_paces.h"

#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/records/tables/terminal_text.h"

namespace paceline::report {

namespace {

constexpr std::size_t kMostNamed = 4;

// "0.25", "36.4", "3360".
std::string ms_text(double seconds) {
  return 1e3 * seconds < 999.5 ? fmt::format("{:.3g}", 1e3 * seconds) : fmt::format("{:.0f}", 1e3 * seconds);
}

}  // namespace

std::string missed_paces(const Summary& summary) {
  std::vector<std::string> missed;
  for (const ReplicaSummary& replica : summary.replicas) {
    if (!replica.pace || replica.pace->held) continue;
    missed.push_back(fmt::format("{} took {} ms an iteration instead of {}", printable(replica.name),
                                 ms_text(replica.pace->taken_s), ms_text(replica.pace->asked_s)));
  }
  if (missed.size() <= kMostNamed) return absl::StrJoin(missed, ", ");
  const std::size_t more = missed.size() - kMostNamed;
  missed.resize(kMostNamed);
  return fmt::format("{} and {} more", absl::StrJoin(missed, ", "), more);
}

}  // namespace paceline::report
