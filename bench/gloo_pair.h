// Gloo's point-to-point messages over TCP, by themselves.
#pragma once

#include <cstddef>
#include <string>

namespace paceline::bench {

// Runs in one of two processes that meet at the folder `store`: rank 1 sends `messages` of `bytes` to rank 0,
// one after the other. Returns the seconds from the first until the word that the last has arrived.
double gloo_pair(const std::string& store, const std::string& address, int rank, std::size_t bytes,
                 int messages);

}  // namespace paceline::bench
