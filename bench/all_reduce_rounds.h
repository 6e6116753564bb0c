// Rounds of data-parallel training by all-reduce, as every rank of one goes through them: all gradients
// become their sum everywhere, and every rank takes the same step of SGD with momentum. Nothing is computed
// beside.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace paceline::bench {

// `sum` makes the gradient the sum of all ranks' in place; `round` hears the time of each round, in ms, from
// the end of the one before. Aborts when the first sum is wrong.
void all_reduce_rounds(int ranks, std::int64_t floats, int rounds,
                       const std::function<void(std::span<float>)>& sum,
                       const std::function<void(double ms)>& round);

}  // namespace paceline::bench
