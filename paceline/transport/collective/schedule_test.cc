// Tests of schedules: slices and chunks cover everything once, waits can be met, and no step overwrites
// memory that another one still has to read.
#include "paceline/transport/collective/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

constexpr Algorithm kAlgorithms[] = {Algorithm::kRing, Algorithm::kSharedMemory};
constexpr std::int64_t kSizes[] = {0, 1, 15, 16, 17, 100, 1000, 10000};

TEST(Schedule, SlicesAndChunksCoverEveryElementOnce) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (const std::int64_t elements : kSizes) {
      const Plan plan{.ranks = ranks, .elements = elements, .chunk = 48};
      std::int64_t at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::int64_t c = 0; c < chunks(plan, rank); ++c) {
          const Range range = chunk(plan, rank, c);
          EXPECT_EQ(range.begin, at);
          EXPECT_GT(range.size(), 0);
          EXPECT_LE(range.size(), plan.chunk);
          for (std::int64_t i = range.begin; i < range.end; ++i) ASSERT_EQ(owner(plan, i), rank);
          at = range.end;
        }
      }
      EXPECT_EQ(at, elements);
    }
  }
}

TEST(Schedule, SlicesAreEvenAndBeginAtCacheLines) {
  const Plan plan{.ranks = 3, .elements = 1000};
  EXPECT_EQ(slice(plan, 0), (Range{0, 336}));
  EXPECT_EQ(slice(plan, 1), (Range{336, 672}));
  EXPECT_EQ(slice(plan, 2), (Range{672, 1000}));
}

// The steps of two ranks in a ring, and of shared memory, written out.
std::string schedule_text(const std::vector<Step>& steps) {
  std::string all;
  for (const Step& step : steps) {
    all += fmt::format("{}{}{} of {} from {} [{},{}) ", all.empty() ? "" : "| ",
                       step.op == Op::kProduct      ? "product"
                       : step.op == Op::kAccumulate ? "accumulate"
                                                    : "copy",
                       step.source == Source::kInput ? "" : " sums", step.peer, step.needs, step.range.begin,
                       step.range.end);
  }
  return all;
}

TEST(Schedule, ARingOfThree) {
  const Plan plan{.algorithm = Algorithm::kRing, .ranks = 3, .elements = 48, .chunk = 16};
  EXPECT_EQ(schedule_text(steps_of(plan, 0)),
            "product of 0 from 0 [16,32) | accumulate of 2 from 0 [16,32) | "
            "product of 0 from 0 [0,16) | accumulate sums of 2 from 2 [0,16) | "
            "copy sums of 2 from 4 [32,48) | copy sums of 2 from 5 [16,32) ");
}

TEST(Schedule, ThreeInSharedMemory) {
  const Plan plan{.algorithm = Algorithm::kSharedMemory, .ranks = 3, .elements = 48, .chunk = 16};
  EXPECT_EQ(schedule_text(steps_of(plan, 1)),
            "product of 0 from 0 [16,32) | accumulate of 1 from 0 [16,32) | accumulate of 2 from 0 [16,32) | "
            "copy sums of 2 from 3 [32,48) | copy sums of 0 from 3 [0,16) ");
}

TEST(Schedule, AllReduceIsItsTwoPhasesOneBehindTheOther) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
      Plan plan{.algorithm = algorithm, .ranks = ranks, .elements = 1000, .chunk = 32};
      for (int rank = 0; rank < ranks; ++rank) {
        plan.phases = Phases::kAllReduce;
        const std::vector<Step> whole = steps_of(plan, rank);
        plan.phases = Phases::kReduceScatter;
        const std::vector<Step> first = steps_of(plan, rank);
        plan.phases = Phases::kAllGather;
        const std::vector<Step> second = steps_of(plan, rank);
        ASSERT_EQ(whole.size(), first.size() + second.size());
        for (std::size_t i = 0; i < whole.size(); ++i) {
          const Step& part = i < first.size() ? first[i] : second[i - first.size()];
          EXPECT_EQ(whole[i].peer, part.peer);
          EXPECT_EQ(whole[i].op, part.op);
          EXPECT_EQ(whole[i].range, part.range);
        }
      }
    }
  }
}

// An order of all steps in which every wait is met; it has fewer steps if there is a deadlock.
std::vector<std::pair<int, std::size_t>> some_order(const std::vector<std::vector<Step>>& steps) {
  std::vector<std::size_t> done(steps.size(), 0);
  std::vector<std::pair<int, std::size_t>> order;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < steps.size(); ++rank) {
      while (done[rank] < steps[rank].size()) {
        const Step& step = steps[rank][done[rank]];
        const auto needs = static_cast<std::size_t>(step.needs);
        if (step.peer != static_cast<int>(rank) && done[static_cast<std::size_t>(step.peer)] < needs) break;
        order.emplace_back(static_cast<int>(rank), done[rank]++);
        moved = true;
      }
    }
  }
  return order;
}

TEST(Schedule, SomeRankCanAlwaysGoOn) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (int ranks = 1; ranks <= 16; ++ranks) {
      for (const std::int64_t elements : kSizes) {
        const Plan plan{.algorithm = algorithm, .ranks = ranks, .elements = elements, .chunk = 32};
        std::vector<std::vector<Step>> steps;
        std::size_t all = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          steps.push_back(steps_of(plan, rank));
          all += steps.back().size();
        }
        EXPECT_EQ(some_order(steps).size(), all) << ranks << " ranks, " << elements << " elements";
      }
    }
  }
}

// A copy overwrites a partial sum that the right neighbour read. The waits alone must put that reading before
// the copy, at any speeds of the ranks: the writer has waited for a rank that had waited … for the reader.
TEST(Schedule, NothingIsOverwrittenBeforeItIsRead) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (const int ranks : {2, 3, 5, 8}) {
      const Plan plan{.algorithm = algorithm, .ranks = ranks, .elements = 40 * ranks, .chunk = 16};
      std::vector<std::vector<Step>> steps;
      for (int rank = 0; rank < ranks; ++rank) steps.push_back(steps_of(plan, rank));
      // known[r][i][p]: steps of p that are finished for certain once r has finished i steps.
      using Known = std::vector<std::size_t>;
      std::vector<std::vector<Known>> known(steps.size(),
                                            std::vector<Known>(1, Known(static_cast<std::size_t>(ranks), 0)));
      for (const auto& [rank, index] : some_order(steps)) {
        const auto own = static_cast<std::size_t>(rank);
        const Step& step = steps[own][index];
        Known now = known[own].back();
        const Known& theirs =
            known[static_cast<std::size_t>(step.peer)][static_cast<std::size_t>(step.needs)];
        for (std::size_t p = 0; p < now.size(); ++p) now[p] = std::max(now[p], theirs[p]);
        // The readers of what an earlier step wrote to this part of the rank's accumulator.
        for (std::size_t reader = 0; step.op != Op::kAccumulate && reader < steps.size(); ++reader) {
          for (std::size_t i = 0; i < steps[reader].size(); ++i) {
            const Step& reading = steps[reader][i];
            const bool older = reading.source == Source::kAccumulator && reading.peer == rank &&
                               reading.range == step.range &&
                               reading.needs <= static_cast<std::int64_t>(index);
            if (older) {
              EXPECT_GT(now[reader], i) << "rank " << rank << ", step " << index;
            }
          }
        }
        now[own] = index + 1;
        known[own].push_back(now);
      }
    }
  }
}

}  // namespace
}  // namespace paceline::collective
