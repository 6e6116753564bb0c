// The whole run as one history, even if it was resumed: the part of each attempt that later ones built upon,
// then the next attempt. For reports. journal.h describes the tables, and which records are void.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <absl/status/status.h>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/store/journal_reader.h"

namespace paceline::store {

// Tells `listener` the facts and orders of each attempt up to the commit of the version that a later one was
// resumed from, and the evaluations up to that version. All replicas of that moment then leave, for that
// reason; if the next attempt has a replica of the same name, it is the same replica again, otherwise a new
// one.
//
// The reasons of the orders live as long as `journal`. Errors: those of JournalReader.
absl::Status replay_whole_run(JournalReader& journal, control::RunListener& listener);

// The last version of an attempt from which no later one went back; nothing for the last attempt. An attempt is left out
// if it has no version up to that one: a later attempt did all of it again.
std::optional<Version> last_kept(const std::vector<Attempt>& attempts, std::size_t i);
inline bool is_left_out(const Attempt& attempt, std::optional<Version> last) {
  return last && *last <= attempt.from;
}

}  // namespace paceline::store
