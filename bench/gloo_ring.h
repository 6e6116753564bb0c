// Gloo's all-reduce over TCP, by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace paceline::bench {

// One of `ranks` processes, which meet at the folder `store`: does the rounds of all_reduce_rounds.h.
void gloo_ring(const std::string& store, const std::string& address, int rank, int ranks, std::int64_t floats,
               int rounds, const std::function<void(double ms)>& round);

}  // namespace paceline::bench
