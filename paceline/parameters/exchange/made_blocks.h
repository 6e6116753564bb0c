// Keeps which blocks of a shard's board are whole while threads write a new version of it, range by range.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "paceline/parameters/exchange/message.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::exchange {

class MadeBlocks {
 public:
  // `floats`: the size of the board, which is one or two times that of the part: weights, and directions.
  MadeBlocks(const ps::Layout& part, std::int64_t floats) : floats_(floats), all_(block_count(floats), 0) {
    for (std::int64_t offset = 0; offset < floats; offset += part.size()) {
      for (const ps::Layout::Range& range : part.moving())
        each_block(offset + range.begin, offset + range.end,
                   [&](std::size_t block, std::int64_t size) { all_[block] += size; });
    }
  }

  // True if versions differ in anything.
  bool any() const {
    return std::any_of(all_.begin(), all_.end(), [](std::int64_t floats) { return floats > 0; });
  }
  // Begins a new version, of which nothing is there.
  void begin() { missing_ = all_; }
  // Floats [begin, end) are written; they move, and were not written before. Calls whole(begin, last) for
  // each block that is whole now; `last`: now the whole version is. Any thread.
  template <class Whole>
  void add(std::int64_t begin, std::int64_t end, Whole whole) {
    const std::lock_guard lock(mutex_);
    each_block(begin, end, [&](std::size_t block, std::int64_t size) {
      missing_[block] -= size;
      if (missing_[block] > 0) return;
      const bool last =
          std::all_of(missing_.begin(), missing_.end(), [](std::int64_t floats) { return floats == 0; });
      whole(block_begin(floats_, block), last);
    });
  }

 private:
  template <class Visit>
  void each_block(std::int64_t begin, std::int64_t end, Visit visit) const {
    while (begin < end) {
      const std::size_t block = block_index(floats_, begin);
      const std::int64_t to = std::min(end, block_begin(floats_, block + 1));
      visit(block, to - begin);
      begin = to;
    }
  }

  const std::int64_t floats_;
  std::vector<std::int64_t> all_;  // floats that move, indexed by block
  std::mutex mutex_;
  std::vector<std::int64_t> missing_;
};

}  // namespace paceline::exchange
