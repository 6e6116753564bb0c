// The memory and the traffic of a run's processes, from one look at its journal to the next: rates are those
// since the report before. Pure; one thread. Memory is bounded by the size of the journal's tables.
#pragma once

#include <cstdint>
#include <map>
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
  // The largest first.
  const std::vector<Memory>& memory() const { return memory_; }

 private:
  struct Counted {
    std::int64_t bytes = 0;
    Time at;
    double bytes_per_s = 0;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Counted> links_;
  std::vector<Memory> memory_;
};

}  // namespace paceline::ui
