// How large the groups were that became one update, and what closed them: commits by their number of
// gradients and by cause. Sizes are exact up to 16 and then go by powers of two, so that a group of 100,000
// replicas takes no more memory than one of four. A part of GroupStats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/policy/sync_policy.h"

namespace paceline::report {

// What of a reason is the same for many commits: its text as far as the first colon, without numbers.
std::string cause_of(const policy::Reason& reason);

class GroupHistogram {
 public:
  static constexpr std::int64_t kExactSizes = 16;
  // Those that came first; the last one stands for all others.
  static constexpr std::size_t kMostCauses = 8;

  // Requires: size > 0.
  void add(std::int64_t size, const policy::Reason& why);

  struct Bin {
    std::int64_t from = 0;  // sizes, both included
    std::int64_t to = 0;
    std::vector<std::int64_t> commits;  // by cause
  };
  // Ascending and without a hole, from one gradient to the largest group there was.
  std::vector<Bin> bins() const;
  // As cause_of() says them.
  std::vector<std::string> causes() const;

 private:
  std::size_t cause(std::string_view text);

  std::vector<std::string> causes_;                // as they stand in the reasons
  std::vector<std::vector<std::int64_t>> counts_;  // by bin and cause
};

}  // namespace paceline::report
