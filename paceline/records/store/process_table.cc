#include "paceline/records/store/process_table.h"

#include <string_view>
#include <utility>

#include "paceline/base/status_macros.h"

namespace paceline::store {

absl::StatusOr<ProcessTable> ProcessTable::open(const Database& database) {
  PACELINE_ASSIGN_OR_RETURN(Statement process,
                            database.prepare("INSERT OR REPLACE INTO processes VALUES(?,?,?,?)"));
  PACELINE_ASSIGN_OR_RETURN(Statement traffic,
                            database.prepare("INSERT OR REPLACE INTO traffic VALUES(?,?,?,?,?,?)"));
  PACELINE_ASSIGN_OR_RETURN(Statement rows,
                            database.prepare("SELECT process, peer, kind, bytes FROM traffic"));
  PACELINE_RETURN_IF_ERROR(rows.start());
  ProcessTable table(std::move(process), std::move(traffic));
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool there, rows.next());
    if (!there) return table;
    const Pair pair{rows.text(0), rows.text(1), rows.text(2)};
    table.counts_[pair].before = rows.integer(3);
  }
}

absl::Status ProcessTable::note(std::int64_t attempt, const control::ProcessReport& report) {
  const std::int64_t at_ns = report.at.time_since_epoch().count();
  PACELINE_RETURN_IF_ERROR(
      process_.run(std::string_view(report.process), attempt, at_ns, report.resident_bytes));
  for (const control::Sent& sent : report.sent) {
    const Pair pair{report.process, sent.peer, sent.kind};
    if (!counts_.contains(pair) && counts_.size() >= kMostPairs) continue;
    Count& count = counts_[pair];
    if (sent.bytes < count.now) count.before += count.now;
    count.now = sent.bytes;
    PACELINE_RETURN_IF_ERROR(traffic_.run(std::string_view(report.process), std::string_view(sent.peer),
                                          std::string_view(sent.kind), attempt, at_ns,
                                          count.before + count.now));
  }
  return absl::OkStatus();
}

}  // namespace paceline::store
