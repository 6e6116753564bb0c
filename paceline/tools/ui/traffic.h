// The memory and the traffic of a run's processes, from one look at its journal to the next: rates are those
// since the report before. A process that reports no more while others do is gone. Pure; one thread. Memory is bounded by the size of the journal's tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "paceline/base/time.h"
#include "paceline/decisions/control/process_report.h"

namespace paceline::ui {

class Traffic {
 public:
  struct Link {
    std::string from, to, kind;
    std::int64_t bytes = 0;  // since the run began
    double bytes_per_s = 0;  // over the latest two reports; 0 before there are two
  };
  struct Memory {
    std::string process;
    std::int64_t resident_bytes = 0;
  };

  // `processes`: JournalReader::processes(), now.
  void look(const std::vector<control::ProcessReport>& processes);

  // The busiest first.
  std::vector<Link> links() const;
  // The largest first, without processes that are gone.
  const std::vector<Memory>& memory() const { return memory_; }

 private:
  // A process that has not reported for this long, while others have, is gone.
  static constexpr std::chrono::seconds kGone{30};
  struct Reported {
    Time at;      // when its newest report was made
    Time newest;  // when the newest report of all was made, as this one came
  };
  // The names of those that are gone.
  std::set<std::string> gone(const std::vector<control::ProcessReport>& processes);

  struct Counted {
    std::int64_t bytes = 0;
    Time at;
    double bytes_per_s = 0;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Counted> links_;
  std::vector<Memory> memory_;
  std::map<std::string, Reported> reported_;
  Time newest_;  // the newest report that came at the latest look that had any
};

}  // namespace paceline::ui
