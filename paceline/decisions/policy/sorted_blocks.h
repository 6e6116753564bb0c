// A sorted set, cut into blocks of neighbours: entries beside each other in the order are beside each other in
// memory, and whole blocks are counted at once. So it is fast to walk from any entry on, and to count the
// entries of a range up to a small number. For Arrivals.
//
// put() and erase() cost O(log n + size of a block), and O(n / size of a block) once in as many changes as a
// block has entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "paceline/base/check.h"

namespace paceline::policy {

// Entry: copyable, with an order (<) in which no two entries of the set are equal.
template <class Entry>
class SortedBlocks {
 public:
  // The most entries of a block.
  static constexpr std::size_t kBlock = 64;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The least entry. Requires: not empty.
  const Entry& front() const { return blocks_.front().front(); }

  void put(const Entry& entry) {
    ++size_;
    if (blocks_.empty()) {
      blocks_.push_back({entry});
      return;
    }
    const std::size_t at = block_of(entry);
    Block& block = blocks_[at];
    block.insert(std::upper_bound(block.begin(), block.end(), entry), entry);
    if (block.size() > kBlock) split(at);
  }

  // Requires: it is in the set.
  void erase(const Entry& entry) {
    PACELINE_CHECK(!blocks_.empty(), "an entry is erased from an empty set");
    const std::size_t at = block_of(entry);
    Block& block = blocks_[at];
    const auto place = std::lower_bound(block.begin(), block.end(), entry);
    PACELINE_CHECK(place != block.end() && !(entry < *place), "an entry is erased that is not in the set");
    block.erase(place);
    --size_;
    if (block.empty()) {
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (at + 1 < blocks_.size() && block.size() + blocks_[at + 1].size() <= kBlock / 2) {
      join_with_next(at);
    }
  }

  // A place between entries. The next change of the set ends it.
  struct Place {
    std::size_t block = 0;
    std::size_t entry = 0;
  };
  Place begin() const { return {}; }
  // The place before the first entry that is not below `entry`. O(log n).
  Place before(const Entry& entry) const {
    if (blocks_.empty()) return {};
    const std::size_t at = block_of(entry);
    const Block& block = blocks_[at];
    const auto first = std::lower_bound(block.begin(), block.end(), entry);
    return {at, static_cast<std::size_t>(first - block.begin())};
  }

  // The number of entries behind `from` and below `until`, but at most `most`. O(1) for each block that has
  // such entries.
  std::size_t count(Place from, const Entry& until, std::size_t most) const {
    std::size_t found = 0;
    for (; from.block < blocks_.size() && found < most; from = {from.block + 1, 0}) {
      ++steps_;
      const Block& block = blocks_[from.block];
      const bool whole = block.back() < until;
      const auto begin = block.begin() + static_cast<std::ptrdiff_t>(from.entry);
      const auto end = whole ? block.end() : std::lower_bound(begin, block.end(), until);
      found += static_cast<std::size_t>(end - begin);
      if (!whole) break;
    }
    return std::min(found, most);
  }

  // Shows each entry behind `from`, in order, as long as `go_on` returns true.
  template <class GoOn>
  void walk(Place from, GoOn go_on) const {
    for (; from.block < blocks_.size(); from = {from.block + 1, 0}) {
      const Block& block = blocks_[from.block];
      for (std::size_t i = from.entry; i < block.size(); ++i) {
        ++steps_;
        if (!go_on(block[i])) return;
      }
    }
  }

  // The blocks counted and the entries shown, since the beginning.
  std::int64_t steps() const { return steps_; }

 private:
  using Block = std::vector<Entry>;

  // The last block that begins at or before the entry, or else the first. Requires: not empty.
  std::size_t block_of(const Entry& entry) const {
    const auto after =
        std::upper_bound(blocks_.begin(), blocks_.end(), entry,
                         [](const Entry& one, const Block& block) { return one < block.front(); });
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after - blocks_.begin(), 1) - 1);
  }

  void split(std::size_t at) {
    Block upper;
    upper.reserve(kBlock + 1);
    const auto middle = blocks_[at].begin() + static_cast<std::ptrdiff_t>(blocks_[at].size() / 2);
    upper.assign(middle, blocks_[at].end());
    blocks_[at].erase(middle, blocks_[at].end());
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
  }

  void join_with_next(std::size_t at) {
    blocks_[at].insert(blocks_[at].end(), blocks_[at + 1].begin(), blocks_[at + 1].end());
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }

  std::vector<Block> blocks_;  // none is empty
  std::size_t size_ = 0;
  mutable std::int64_t steps_ = 0;
};

}  // namespace paceline::policy
