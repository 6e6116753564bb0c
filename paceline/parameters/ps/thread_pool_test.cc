// Sharing out a range: all of it, each element once, in pieces that depend on nothing but the numbers.
#include "paceline/parameters/ps/thread_pool.h"

#include <mutex>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::ps {
namespace {

using Pieces = std::set<std::pair<std::int64_t, std::int64_t>>;

Pieces pieces_of(ThreadPool& pool, std::int64_t size, std::int64_t grain) {
  std::mutex mutex;
  Pieces pieces;
  pool.share(size, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    pieces.insert({begin, end});
  });
  return pieces;
}

TEST(ThreadPool, SharesEverythingOnceAndCutsAtGrains) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const std::int64_t size : {0, 1, 15, 16, 17, 100, 4096, 10001}) {
      const Pieces pieces = pieces_of(pool, size, 16);
      EXPECT_LE(static_cast<int>(pieces.size()), threads);
      std::int64_t at = 0;
      for (const auto& [begin, end] : pieces) {
        EXPECT_EQ(begin, at);
        EXPECT_EQ(begin % 16, 0);
        EXPECT_LT(begin, end);
        at = end;
      }
      EXPECT_EQ(at, size);
      EXPECT_EQ(pieces_of(pool, size, 16), pieces) << "the same again";
    }
  }
}

TEST(ThreadPool, ReturnsOnlyWhenAllIsDone) {
  ThreadPool pool(4);
  std::vector<int> values(1000, 0);
  for (int round = 1; round <= 500; ++round) {
    pool.share(1000, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++values[static_cast<std::size_t>(i)];
    });
    ASSERT_EQ(values, std::vector<int>(1000, round));
  }
}

TEST(ThreadPool, NoThreadsAreOneThread) {
  ThreadPool pool(0);
  EXPECT_EQ(pieces_of(pool, 10, 4), (Pieces{{0, 10}}));
}

}  // namespace
}  // namespace paceline::ps
