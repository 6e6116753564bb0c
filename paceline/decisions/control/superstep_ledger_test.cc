// The books against a model that looks at everybody after each event.
#include "paceline/decisions/control/superstep_ledger.h"

#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::control {
namespace {

class BooksModel {
 public:
  void enter(int id) { live_[id] = {}; }
  void leave(int id) {
    live_.erase(id);
    look();
  }
  std::int64_t ready(int id) {
    Replica& mine = live_.at(id);
    const std::int64_t finished = mine.bound ? ++mine.finished : 0;
    ++mine.readies;
    look();
    return finished;
  }
  void committed(std::size_t members) {
    if (members < live_.size()) return;
    moment_ = false;
    for (auto& [id, replica] : live_) replica = {};
  }
  bool live(int id) const { return live_.contains(id); }
  std::size_t size() const { return live_.size(); }

 private:
  struct Replica {
    int readies = 0;
    bool bound = false;
    std::int64_t finished = 0;
  };
  void look() {
    if (moment_ || live_.empty()) return;
    moment_ =
        std::all_of(live_.begin(), live_.end(), [](const auto& one) { return one.second.readies >= 2; });
    for (auto& [id, replica] : live_) replica.bound = moment_;
  }

  std::map<int, Replica> live_;
  bool moment_ = false;
};

TEST(SuperstepLedger, AreThoseOfTheModel) {
  std::int64_t most = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    SuperstepLedger books;
    BooksModel model;
    const std::uint64_t replicas = 1 + rng.below(5);
    const std::uint64_t barrier_odds = 5 + rng.below(40);
    for (int step = 0; step < 200; ++step) {
      const auto id = static_cast<int>(rng.below(replicas));
      const ReplicaId replica(id);
      if (!model.live(id)) {
        if (rng.below(4) != 0) continue;
        books.enter(replica);
        model.enter(id);
      } else if (rng.below(40) == 0) {
        books.leave(replica);
        model.leave(id);
      } else if (rng.below(barrier_odds) == 0) {
        const std::size_t members = rng.below(3) == 0 ? 1 : model.size();
        books.committed(members);
        model.committed(members);
      } else {
        const std::int64_t finished = model.ready(id);
        ASSERT_EQ(books.ready(replica), finished) << "seed " << seed << ", step " << step;
        most = std::max(most, finished);
      }
    }
  }
  EXPECT_GT(most, 10) << "the runs are to meet what they are meant to meet";
}

TEST(SuperstepLedger, ToLeaveTwiceIsToLeaveOnce) {
  SuperstepLedger books;
  books.leave(ReplicaId(3));
  books.enter(ReplicaId(0));
  books.enter(ReplicaId(1));
  books.leave(ReplicaId(1));
  books.leave(ReplicaId(1));
  EXPECT_EQ(books.ready(ReplicaId(0)), 0);
  EXPECT_EQ(books.ready(ReplicaId(0)), 0);
  EXPECT_EQ(books.ready(ReplicaId(0)), 1);
}

}  // namespace
}  // namespace paceline::control
