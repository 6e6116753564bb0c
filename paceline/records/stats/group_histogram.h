// A histogram of commits by their number of gradients and by the cause that closed the group. Sizes are exact
// up to 16 and then go by powers of two, so that a group of 100,000 replicas takes no more memory than one of
// four. A part of GroupStats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::report {

// The part of a reason that is the same for many commits: its text up to the first colon, without numbers.
std::string cause_of(const policy::Reason& reason);

class GroupHistogram {
 public:
  static constexpr std::int64_t kExactSizes = 16;
  // The causes that came first have a number of their own; the last one stands for all others.
  static constexpr std::size_t kMostCauses = 8;

  // Requires: size > 0.
  void add(std::int64_t size, const policy::Reason& why);

  struct Bin {
    std::int64_t from = 0;  // sizes, both included
    std::int64_t to = 0;
    std::vector<std::int64_t> commits;  // indexed by cause
  };
  // Ascending and without a hole, from one gradient to the largest group there was.
  std::vector<Bin> bins() const;
  // The texts that cause_of() makes.
  std::vector<std::string> causes() const;

 private:
  std::size_t cause(std::string_view text);

  std::vector<std::string> causes_;                // the reasons' texts, with numbers
  std::vector<std::vector<std::int64_t>> counts_;  // indexed by bin and cause
};

}  // namespace paceline::report
