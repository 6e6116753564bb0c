// The sum of a commit's gradients by its members, each a slice, while the shard applies it. The shard takes
// the finished chunks and sums the rest itself. So it never waits for a member, and a member that is slow or
// dies does not change the result: the bits are the same in any case. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/transport/collective/schedule.h"

namespace paceline::memory {
class GradientReader;
}

namespace paceline::ps {

// How so many members share out the sum of gradients of `floats` each. Worker and shard must agree on it.
collective::Plan group_plan(int members, std::int64_t floats);

class GroupSum {
 public:
  // `members`: in the order of the commit; they outlive this. A shard's part of the model's `floats` begins
  // at `part_offset`. Requires: a member.
  GroupSum(Version version, std::vector<const memory::GradientReader*> members, std::int64_t floats,
           std::int64_t part_offset);

  // From `begin` of the shard's part to the end of what one member publishes at once, or to `end`.
  struct Piece {
    std::int64_t end;
    const float* sum;  // sum of the shard's part, with this piece filled; null until it is
  };
  Piece piece(std::int64_t begin, std::int64_t end) const;

 private:
  Version version_;
  std::vector<const memory::GradientReader*> members_;
  collective::Plan plan_;
  std::int64_t part_offset_;
};

}  // namespace paceline::ps
