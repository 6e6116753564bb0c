#include "paceline/transport/collective/schedule.h"

#include <algorithm>

namespace paceline::collective {

namespace {

constexpr std::int64_t kGrain = 16;  // floats of a cache line

std::int64_t grains(const Plan& plan) { return (plan.elements + kGrain - 1) / kGrain; }

int around(const Plan& plan, int rank) { return ((rank % plan.ranks) + plan.ranks) % plan.ranks; }

bool gathers(const Plan& plan) { return plan.phases != Phases::kReduceScatter; }
bool reduces(const Plan& plan) { return plan.phases != Phases::kAllGather; }

// The ring. In round t of the reduction a rank adds its own input to what its left neighbour has of slice
// rank − t − 2, so that after ranks − 1 rounds it holds the whole of its own slice; in round t of the
// gathering it copies slice rank − 1 − t from there.
int reduced_in(const Plan& plan, int rank, int round) { return around(plan, rank - round - 2); }
int gathered_in(const Plan& plan, int rank, int round) { return around(plan, rank - 1 - round); }
constexpr std::int64_t kStepsAChunk = 2;  // in the reduction: first its own input, then the neighbour's sum

// Steps of a rank before a round of the reduction; at round ranks − 1, all steps of the reduction.
std::int64_t before_reduce_round(const Plan& plan, int rank, int round) {
  std::int64_t steps = 0;
  for (int t = 0; t < round; ++t) steps += kStepsAChunk * chunks(plan, reduced_in(plan, rank, t));
  return steps;
}

std::int64_t before_gather_round(const Plan& plan, int rank, int round) {
  std::int64_t steps = reduces(plan) ? before_reduce_round(plan, rank, plan.ranks - 1) : 0;
  for (int t = 0; t < round; ++t) steps += chunks(plan, gathered_in(plan, rank, t));
  return steps;
}

void ring_reduce(const Plan& plan, int rank, std::vector<Step>& steps) {
  const int left = around(plan, rank - 1);
  for (int round = 0; round < plan.ranks - 1; ++round) {
    const int part = reduced_in(plan, rank, round);
    // The chain of a slice begins with an input, which is there from the start.
    const Source source = round == 0 ? Source::kInput : Source::kAccumulator;
    const std::int64_t before = round == 0 ? 0 : before_reduce_round(plan, left, round - 1);
    for (std::int64_t c = 0; c < chunks(plan, part); ++c) {
      const Range range = chunk(plan, part, c);
      const std::int64_t needs = round == 0 ? 0 : before + kStepsAChunk * (c + 1);
      steps.push_back({rank, 0, Op::kProduct, Source::kInput, range});
      steps.push_back({left, needs, Op::kAccumulate, source, range});
    }
  }
}

// Steps that the peer must have finished before its own chunk can be copied. If nothing was reduced, the
// chunk is there from the start.
std::int64_t own_chunk_needs(const Plan& plan, int peer, std::int64_t index) {
  return reduces(plan) ? steps_until_sum(plan, peer, index) : 0;
}

void ring_gather(const Plan& plan, int rank, std::vector<Step>& steps) {
  const int left = around(plan, rank - 1);
  for (int round = 0; round < plan.ranks - 1; ++round) {
    const int part = gathered_in(plan, rank, round);
    const std::int64_t before = round == 0 ? 0 : before_gather_round(plan, left, round - 1);
    for (std::int64_t c = 0; c < chunks(plan, part); ++c) {
      const std::int64_t needs = round > 0 ? before + c + 1 : own_chunk_needs(plan, left, c);
      steps.push_back({left, needs, Op::kCopy, Source::kAccumulator, chunk(plan, part, c)});
    }
  }
}

// Sums all inputs in the order of the ranks. A rank alone does this under any algorithm.
void direct_reduce(const Plan& plan, int rank, std::vector<Step>& steps) {
  for (std::int64_t c = 0; c < chunks(plan, rank); ++c) {
    for (int member = 0; member < plan.ranks; ++member) {
      const Op op = member == 0 ? Op::kProduct : Op::kAccumulate;
      steps.push_back({member, 0, op, Source::kInput, chunk(plan, rank, c)});
    }
  }
}

void direct_gather(const Plan& plan, int rank, std::vector<Step>& steps) {
  for (int i = 1; i < plan.ranks; ++i) {
    const int peer = around(plan, rank + i);  // the ranks begin with different peers
    for (std::int64_t c = 0; c < chunks(plan, peer); ++c) {
      const std::int64_t needs = own_chunk_needs(plan, peer, c);
      steps.push_back({peer, needs, Op::kCopy, Source::kAccumulator, chunk(plan, peer, c)});
    }
  }
}

bool ring(const Plan& plan) { return plan.algorithm == Algorithm::kRing && plan.ranks > 1; }

}  // namespace

Range slice(const Plan& plan, int rank) {
  const auto edge = [&](std::int64_t at) {
    return std::min(plan.elements, grains(plan) * at / plan.ranks * kGrain);
  };
  return {edge(rank), edge(rank + 1)};
}

std::int64_t chunks(const Plan& plan, int rank) {
  return (slice(plan, rank).size() + plan.chunk - 1) / plan.chunk;
}

Range chunk(const Plan& plan, int rank, std::int64_t index) {
  const Range whole = slice(plan, rank);
  const std::int64_t begin = whole.begin + index * plan.chunk;
  return {begin, std::min(whole.end, begin + plan.chunk)};
}

int owner(const Plan& plan, std::int64_t element) {
  int rank = static_cast<int>(element / kGrain * plan.ranks / grains(plan));
  while (slice(plan, rank).end <= element) ++rank;  // both divisions round down
  return rank;
}

std::vector<Step> steps_of(const Plan& plan, int rank) {
  std::vector<Step> steps;
  if (reduces(plan)) (ring(plan) ? ring_reduce : direct_reduce)(plan, rank, steps);
  if (gathers(plan)) (ring(plan) ? ring_gather : direct_gather)(plan, rank, steps);
  return steps;
}

std::int64_t steps_until_sum(const Plan& plan, int rank, std::int64_t index) {
  if (!ring(plan)) return (index + 1) * plan.ranks;
  return before_reduce_round(plan, rank, plan.ranks - 2) + kStepsAChunk * (index + 1);
}

}  // namespace paceline::collective
