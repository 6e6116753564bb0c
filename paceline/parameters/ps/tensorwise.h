// Steps of a whole tensor, for optimizers that need sums over it before they change it: LARS, LAMB, Adafactor
// (optimizers/ says which papers). They go over a tensor's memory two or three times. Vectorized for the
// processor it runs on, with the same bytes on every one. Any thread, each on tensors of its own.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/parameters/ps/fused_update.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::ps {

// Steps the tensor of this shape that begins at element `begin` of the streams. streams.next_weights holds
// the members' averaged gradient there before, and the new weights after. Returns whether the new weights and
// the state are finite; with a gradient that has NaN or ±inf they are not.
//
// LARS and LAMB multiply the step by a ratio of norms only for tensors of two dimensions or more. Norms and
// biases take the plain step, as both papers' own programs do. A ratio is 1 where one of its norms is 0.
//
// Adafactor keeps means over the rows and columns of the last two dimensions. They lie in the first floats of
// the tensor's state, the rows of all matrices first. Where one of these dimensions is 1, or there is only
// one, that comes to a mean for each element, and it keeps that.
//
// Requires: is_tensorwise(kind); `shape` is of at least one element.
bool tensorwise_update(OptimizerKind kind, const StepNumbers& numbers, std::span<const std::int64_t> shape,
                       const UpdateStreams& streams, std::int64_t begin);

}  // namespace paceline::ps
