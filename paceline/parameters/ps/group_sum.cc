#include "paceline/parameters/ps/group_sum.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/transport/collective/progress.h"

namespace paceline::ps {

collective::Plan group_plan(int members, std::int64_t floats) {
  return {.algorithm = collective::Algorithm::kSharedMemory,
          .phases = collective::Phases::kReduceScatter,
          .ranks = members,
          .elements = floats};
}

GroupSum::GroupSum(Version version, std::vector<const memory::GradientReader*> members, std::int64_t floats,
                   std::int64_t part_offset)
    : version_(version),
      members_(std::move(members)),
      plan_(group_plan(static_cast<int>(members_.size()), floats)),
      part_offset_(part_offset) {
  PACELINE_CHECK(!members_.empty(), "commit {} has no member", version);
}

GroupSum::Piece GroupSum::piece(std::int64_t begin, std::int64_t end) const {
  const std::int64_t at = part_offset_ + begin;
  const int rank = collective::owner(plan_, at);
  const std::int64_t index = (at - collective::slice(plan_, rank).begin) / plan_.chunk;
  const std::int64_t chunk_end = collective::chunk(plan_, rank, index).end - part_offset_;
  const memory::GradientReader& member = *members_[static_cast<std::size_t>(rank)];
  const auto steps = collective::steps_in(member.sums_progress(), version_.value());
  const bool there = steps && *steps >= collective::steps_until_sum(plan_, rank, index);
  return {std::min(end, chunk_end), there ? member.sums().data() + part_offset_ : nullptr};
}

}  // namespace paceline::ps
