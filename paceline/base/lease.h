// Samples that one replica may train on: positions [begin, end) of one epoch's permutation, and a scrap if there is one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace paceline {

struct Lease {
  std::int32_t epoch = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  // The scrap: positions [scrap_begin, scrap_end), below `begin`. They were given back, and are too few for a lease of
  // their own. Both are 0 if there is none.
  std::int64_t scrap_begin = 0;
  std::int64_t scrap_end = 0;

  std::int64_t scrap() const { return scrap_end - scrap_begin; }
  std::int64_t size() const { return end - begin + scrap(); }
  // Calls function(begin, end) for each of its runs of positions, in their order.
  template <class Function>
  void for_each_run(Function function) const {
    if (scrap() > 0) function(scrap_begin, scrap_end);
    if (end > begin) function(begin, end);
  }
  friend bool operator==(const Lease&, const Lease&) = default;
};

// "samples 0 to 32 of epoch 1"
std::string in_words(const Lease& lease);

// The samples [from, to) of a lease, counted within it.
Lease part_of(const Lease& lease, std::int64_t from, std::int64_t to);

// The number of samples of all epochs, as long as nobody knows it: more than any run trains on.
constexpr std::int64_t kUnknownTotal = std::int64_t{1} << 60;

// The part of a lease that exists if there are `total` samples in all, of epochs of `dataset_size` samples. It may be
// empty.
inline Lease before(std::int64_t total, const Lease& lease, std::int64_t dataset_size) {
  const std::int64_t limit = total - lease.epoch * dataset_size;
  const std::int64_t end = std::clamp(limit, lease.begin, lease.end);
  if (lease.scrap() == 0) return {lease.epoch, lease.begin, end};
  const std::int64_t scrap_end = std::clamp(limit, lease.scrap_begin, lease.scrap_end);
  if (end == lease.begin) return {lease.epoch, lease.scrap_begin, scrap_end};
  return {lease.epoch, lease.begin, end, lease.scrap_begin, scrap_end};
}

}  // namespace paceline
