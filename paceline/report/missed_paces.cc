#include "paceline/report/missed_paces.h"

#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/report/terminal_text.h"

namespace paceline::report {

namespace {

constexpr std::size_t kMostNamed = 4;

}  // namespace

std::string missed_paces(const Summary& summary) {
  std::vector<std::string> missed;
  for (const ReplicaSummary& replica : summary.replicas) {
    if (!replica.pace || replica.pace->held) continue;
    missed.push_back(fmt::format("{} took {:.3g} ms an iteration instead of {:.3g}", printable(replica.name),
                                 1e3 * replica.pace->taken_s, 1e3 * replica.pace->asked_s));
  }
  if (missed.size() <= kMostNamed) return absl::StrJoin(missed, ", ");
  const std::size_t more = missed.size() - kMostNamed;
  missed.resize(kMostNamed);
  return fmt::format("{} and {} more", absl::StrJoin(missed, ", "), more);
}

}  // namespace paceline::report
