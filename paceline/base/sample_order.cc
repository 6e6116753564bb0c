#include "paceline/base/sample_order.h"

#include <numeric>

#include "paceline/base/keyed_permutation.h"
#include "paceline/base/rng.h"

namespace paceline {

namespace {
enum Stream : std::uint64_t { kOrder = 1, kAugment = 2, kStep = 3 };
}

std::span<const std::int32_t> SampleOrder::samples(const Lease& lease) {
  if (lease.epoch < 0 || lease.begin < 0 || lease.end > dataset_size_ || lease.end <= lease.begin) return {};
  if (lease.scrap() > 0) return both_runs(lease);
  if (in_order_) {
    order_.resize(static_cast<std::size_t>(lease.size()));
    std::iota(order_.begin(), order_.end(), static_cast<std::int32_t>(lease.begin));
    return order_;
  }
  const std::uint64_t seed = mix_seed({seed_, kOrder, static_cast<std::uint64_t>(lease.epoch)});
  if (dataset_size_ > kMostListed) {
    const KeyedPermutation permuted(seed, dataset_size_);
    order_.clear();
    for (std::int64_t place = lease.begin; place < lease.end; ++place)
      order_.push_back(static_cast<std::int32_t>(permuted(place)));
    return order_;
  }
  if (lease.epoch != epoch_) {
    epoch_ = lease.epoch;
    order_ = permutation(seed, dataset_size_);
  }
  return std::span(order_).subspan(static_cast<std::size_t>(lease.begin),
                                   static_cast<std::size_t>(lease.size()));
}

std::span<const std::int32_t> SampleOrder::both_runs(const Lease& lease) {
  both_.clear();
  lease.for_each_run([&](std::int64_t begin, std::int64_t end) {
    const auto run = samples({lease.epoch, begin, end});
    both_.insert(both_.end(), run.begin(), run.end());
  });
  return both_;
}

std::uint64_t SampleOrder::augment_seed(const Lease& lease) const {
  return mix_seed({seed_, kAugment, static_cast<std::uint64_t>(lease.epoch)});
}

std::uint64_t SampleOrder::step_seed(const Lease& lease) const {
  return mix_seed(
      {seed_, kStep, static_cast<std::uint64_t>(lease.epoch), static_cast<std::uint64_t>(lease.begin)});
}

}  // namespace paceline
