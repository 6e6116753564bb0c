// The samples that a lease means, and the seeds of everything random about them: functions of the job's seed
// and the lease alone, so that any process that trains on a sample does the same with it. Keeps the last
// epoch's permutation, if the set is small enough to be listed. A data set with an order of its own (a stream) is not
// permuted: its samples are the places of the lease. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/base/lease.h"

namespace paceline {

class SampleOrder {
 public:
  // With a larger set every process would list 16 MB or more, and every epoch would begin with a pause.
  static constexpr std::int32_t kMostListed = 1 << 22;

  SampleOrder(std::uint64_t seed, std::int32_t dataset_size, bool in_order = false)
      : seed_(seed), dataset_size_(dataset_size), in_order_(in_order) {}

  // Valid until the next call. Empty if the lease is not one of this data set.
  std::span<const std::int32_t> samples(const Lease& lease);
  // The seed for augmenting an epoch's samples.
  std::uint64_t augment_seed(const Lease& lease) const;
  // The seed for the random numbers that the model draws while it computes on this lease.
  std::uint64_t step_seed(const Lease& lease) const;

 private:
  std::span<const std::int32_t> both_runs(const Lease& lease);

  const std::uint64_t seed_;
  const std::int32_t dataset_size_;
  const bool in_order_;
  std::int32_t epoch_ = -1;          // the epoch that is listed
  std::vector<std::int32_t> order_;  // the samples of that epoch, or of the last lease
  std::vector<std::int32_t> both_;   // the samples of the last lease that had a scrap
};

}  // namespace paceline
