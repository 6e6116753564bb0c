// The whole run as one history, however often it was resumed: of each attempt what later ones built upon,
// then the next attempt. For reports. What the tables hold, and what is void, is said in journal.h.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/control/run_listener.h"
#include "paceline/store/journal_reader.h"

namespace paceline::store {

// Tells `listener` the facts and orders of each attempt up to the commit of the version that a later one was
// resumed from, and the evaluations up to that version. All that were there then leave, with that as the
// reason; if the next attempt has a replica of the same name, it is the same replica again, otherwise a new
// one.
//
// The reasons of the orders live as long as `journal`. Errors: those of JournalReader.
absl::Status replay_whole_run(JournalReader& journal, control::RunListener& listener);

// Of that, one attempt which is not the last. `texts`: keep the reasons.
class Splice;
absl::Status replay_attempt(JournalReader& journal, const std::vector<Attempt>& attempts, std::size_t i,
                            Splice& splice, std::set<std::string, std::less<>>& texts);

}  // namespace paceline::store
