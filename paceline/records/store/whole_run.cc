#include "paceline/records/store/whole_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/splice.h"

namespace paceline::store {

std::optional<Version> last_kept(const std::vector<Attempt>& attempts, std::size_t i) {
  std::optional<Version> last;
  for (std::size_t later = i + 1; later < attempts.size(); ++later)
    last = std::min(last.value_or(attempts[later].from), attempts[later].from);
  return last;
}

namespace {

absl::Status replay_attempt(JournalReader& journal, const std::vector<Attempt>& attempts, std::size_t i,
                            Splice& splice) {
  const std::optional<Version> last = last_kept(attempts, i);
  if (is_left_out(attempts[i], last)) return absl::OkStatus();
  splice.begin(last);
  std::int64_t from_the_start = -1;
  PACELINE_RETURN_IF_ERROR(journal.replay_after(splice, attempts[i].number, from_the_start, journal.texts()));
  PACELINE_RETURN_IF_ERROR(splice.status());
  if (last) splice.end();
  return absl::OkStatus();
}

}  // namespace

absl::Status replay_whole_run(JournalReader& journal, control::RunListener& listener) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Attempt> attempts, journal.attempts());
  Splice splice(listener);
  for (std::size_t i = 0; i < attempts.size(); ++i)
    PACELINE_RETURN_IF_ERROR(replay_attempt(journal, attempts, i, splice));
  return absl::OkStatus();
}

}  // namespace paceline::store
