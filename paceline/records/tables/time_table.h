// The time of a run by cause, for people: a sentence and a table.
#pragma once

#include <cstddef>
#include <string>

#include "paceline/records/stats/summary.h"
#include "paceline/records/stats/time_ledger.h"

namespace paceline::report {

// The main cause of waiting, in a sentence: "w3 takes 3.1 times as long as the others: under BSP they wait 62
// % of their time for it". `policy`: RunInfo::policy.
std::string what_holds_back(const TimeLedger& ledger, const std::string& policy);

// A text for a terminal: the sentence, a row a device (at most `most`), and which replicas were waited for by
// which rule.
std::string time_table(const TimeLedger& ledger, const Summary& summary, std::size_t most = 64);

}  // namespace paceline::report
