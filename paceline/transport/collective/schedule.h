// The way in which the members of a group sum their inputs, as data: for each rank a list of steps. Pure.
//
// A rank has an input (its own, nobody writes it) and an accumulator. In a step it reads a peer's memory, or
// its own, and writes its own accumulator; it never writes a peer's, and it publishes how many of its steps
// are finished. So there is no leader, and a dead rank leaves nothing half-written with others. Every rank
// owns a slice of the elements; a slice is cut into chunks, so that a chunk of the sum can be used while the
// next ones are still being made.
//
// Invariant: what a step reads was finished by the steps it waits for, and is not written again in this
// schedule; following the waits, some rank can always go on.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::collective {

enum class Algorithm {
  kRing,          // every rank reads its neighbour's partial sums: each byte passes each link once
  kSharedMemory,  // every rank reads all inputs of its slice, in the order of the ranks
};

enum class Phases {
  kReduceScatter,  // then each rank's accumulator holds its slice of the sum
  kAllGather,      // begins there; then each accumulator holds all slices
  kAllReduce,      // both, one after the other
};

struct Plan {
  Algorithm algorithm = Algorithm::kSharedMemory;
  Phases phases = Phases::kAllReduce;
  int ranks = 1;
  std::int64_t elements = 0;
  std::int64_t chunk = 1 << 14;  // elements
};

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

enum class Op {
  kProduct,     // accumulator = weight · input
  kAccumulate,  // accumulator += weight · input, or += the peer's accumulator
  kCopy,        // accumulator = the peer's accumulator
};
enum class Source { kInput, kAccumulator };

struct Step {
  int peer = 0;            // the rank whose memory is read; may be the rank itself
  std::int64_t needs = 0;  // this many steps of the peer must be finished
  Op op = Op::kProduct;
  Source source = Source::kInput;
  Range range;
};

// The rank's elements. Slices are cut at cache lines; some are empty if there are few elements.
Range slice(const Plan& plan, int rank);
// Number of chunks of the rank's slice.
std::int64_t chunks(const Plan& plan, int rank);
Range chunk(const Plan& plan, int rank, std::int64_t index);
// The rank whose slice has this element.
int owner(const Plan& plan, std::int64_t element);

// Requires: 0 ≤ rank < ranks, 0 ≤ elements, 0 < chunk.
std::vector<Step> steps_of(const Plan& plan, int rank);
// The number of steps after which a rank's accumulator holds this chunk of its slice of the sum. Requires: a
// plan that reduces.
std::int64_t steps_until_sum(const Plan& plan, int rank, std::int64_t index);

}  // namespace paceline::collective
