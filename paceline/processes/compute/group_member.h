// A worker's part in summing the gradients of a commit: it sums its slice of them, from the members' memory
// into its own. The servers take the finished chunks and sum the rest themselves. So no process waits for a
// worker here, and a worker that cannot sum is not an error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include <absl/status/status.h>

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/memory/gradient_buffer.h"

namespace paceline::compute {

class GroupMember {
 public:
  // `own`: this worker's gradient, of so many floats; it outlives this.
  GroupMember(memory::GradientWriter& own, std::int64_t floats) : own_(own), floats_(floats) {}

  // Sums until its slice is done or the commit is `complete`: from then on the other members write their
  // gradients anew. Errors: InvalidArgument when there is no such order.
  absl::Status reduce(const wire::Reduce& order, const std::function<bool()>& complete);

 private:
  // Null when it cannot be mapped: that worker died this very moment.
  const memory::GradientReader* open(const wire::Reduce::Member& member);

  memory::GradientWriter& own_;
  const std::int64_t floats_;
  std::map<std::int32_t, memory::GradientReader> others_;  // key: replica
};

}  // namespace paceline::compute
