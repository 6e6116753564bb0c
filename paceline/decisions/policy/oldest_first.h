// Replicas in the order in which they came. Each can leave at any time. Part of a policy's state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/base/ids.h"

namespace paceline::policy {

// A list that is linked through an array, indexed by replica id. O(1) each; memory grows with the largest id.
class OldestFirst {
 public:
  // Requires: it is not here.
  void put(ReplicaId replica) {
    const auto index = static_cast<std::size_t>(replica.value());
    if (index + 1 >= links_.size()) links_.resize(index + 2);
    PACELINE_CHECK(!here(replica), "replica {} is put in twice", replica);
    link(links_[kEnds].before, place(replica));
    link(place(replica), kEnds);
    ++size_;
  }

  // Does nothing if it is not here.
  void erase(ReplicaId replica) {
    if (!here(replica)) return;
    Link& mine = links_[place(replica)];
    link(mine.before, mine.after);
    mine = {kNowhere, kNowhere};
    --size_;
  }

  bool here(ReplicaId replica) const {
    return place(replica) < links_.size() && links_[place(replica)].after != kNowhere;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Requires: not empty.
  ReplicaId oldest() const { return ReplicaId(static_cast<ReplicaId::rep>(links_[kEnds].after - 1)); }

 private:
  // The place of the link that has both ends of the list as its neighbours.
  static constexpr std::uint32_t kEnds = 0;
  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  struct Link {
    std::uint32_t before = kNowhere;
    std::uint32_t after = kNowhere;
  };

  static std::uint32_t place(ReplicaId replica) { return static_cast<std::uint32_t>(replica.value()) + 1; }
  void link(std::uint32_t before, std::uint32_t after) {
    links_[before].after = after;
    links_[after].before = before;
  }

  std::vector<Link> links_{{kEnds, kEnds}};
  std::size_t size_ = 0;
};

}  // namespace paceline::policy
