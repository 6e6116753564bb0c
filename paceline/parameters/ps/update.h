// One commit, as one shard sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/ps/bfloat16.h"
#include "paceline/parameters/ps/group_sum.h"

namespace paceline::ps {

struct Update {
  struct Member {
    const float* gradient;  // layout().size() floats; those of constants are not looked at
    double weight;          // weight of its gradient in the sum
    double share;           // share of its statistics
    // If the layout has narrow tensors: the gradient's bfloat16 of float 0 of the shard.
    const Bfloat16* narrow = nullptr;
  };
  Version version;
  std::vector<Member> members;
  double learning_rate = 0;  // η
  double fraction = 1;       // f
  // A version that is not finite must not be visible: it is not published, and this shard ends.
  bool only_finite = false;
  // Members give how far they moved the weights by steps of their own: the weights go by the mean of that,
  // and the optimizer has no part in it.
  bool of_differences = false;
  std::optional<GroupSum> group = {};  // if the members sum among themselves
  // Gradients that come while they are applied: this waits until elements [begin, end) of all of them are
  // there. Called by any thread, for parts of blocks of so many elements. An error is the end of this shard.
  std::function<absl::Status(std::int64_t begin, std::int64_t end)> arrival = {};
  std::int64_t arrival_block = 0;
  // If gradients are clipped and members' gradients are of this shard's part alone: the squared norm of
  // the averaged gradient over all parts, given this part's `own`. An error is the end of this shard.
  std::function<absl::StatusOr<double>(double own)> squares_of_all = {};
  // Floats [begin, end) of the board's buffer for this version are as they will be: each that moves once, by
  // any thread, before the version is published.
  std::function<void(std::span<const float> buffer, std::int64_t begin, std::int64_t end)> made = {};
};

}  // namespace paceline::ps
