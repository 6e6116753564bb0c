// Gloo's all-reduce, through libtorch's c10d as PyTorch's DistributedDataParallel uses it on processors.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::bench {

// Runs in one of `ranks` processes that meet at the file `store`: `rounds` all-reduces (sum) of `floats`
// floats over loopback. Writes each round's milliseconds to `times`, unless that is negative.
void gloo_all_reduce(const std::string& store, int rank, int ranks, std::int64_t floats, int rounds,
                     int times);

}  // namespace paceline::bench
