// The tables of a journal with the memory of a run's processes, and the traffic between them: a row for each
// process, and for each pair and kind, of the newest report. For journal.cc only. A process that starts
// again, or begins a new session, counts from zero; the row adds that to what was counted before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include <absl/status/statusor.h>

#include "paceline/decisions/control/process_report.h"
#include "paceline/records/store/sqlite.h"

namespace paceline::store {

class ProcessTable {
 public:
  // The most rows of traffic; later pairs are left out.
  static constexpr std::size_t kMostPairs = 4096;

  static absl::StatusOr<ProcessTable> open(const Database& database);

  absl::Status note(std::int64_t attempt, const control::ProcessReport& report);

 private:
  ProcessTable(Statement process, Statement traffic)
      : process_(std::move(process)), traffic_(std::move(traffic)) {}

  using Pair = std::tuple<std::string, std::string, std::string>;  // process, peer, kind
  struct Count {
    std::int64_t before = 0;  // counted by earlier sessions
    std::int64_t now = 0;
  };

  Statement process_, traffic_;
  std::map<Pair, Count> counts_;
};

}  // namespace paceline::store
