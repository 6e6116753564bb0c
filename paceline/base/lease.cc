#include "paceline/base/lease.h"

#include <fmt/format.h>

namespace paceline {

std::string in_words(const Lease& lease) {
  const std::string scrap =
      lease.scrap() > 0 ? fmt::format("{} to {} and ", lease.scrap_begin, lease.scrap_end) : "";
  return fmt::format("samples {}{} to {} of epoch {}", scrap, lease.begin, lease.end, lease.epoch);
}

Lease part_of(const Lease& lease, std::int64_t from, std::int64_t to) {
  const std::int64_t scrap = lease.scrap();
  const std::int64_t shift = lease.begin - scrap;  // from a sample's number in the lease to its position
  if (from >= scrap) return {lease.epoch, shift + from, shift + to};
  if (to <= scrap) return {lease.epoch, lease.scrap_begin + from, lease.scrap_begin + to};
  return {lease.epoch, lease.begin, shift + to, lease.scrap_begin + from, lease.scrap_end};
}

}  // namespace paceline
