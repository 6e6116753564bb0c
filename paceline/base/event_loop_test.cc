// Work handed to one thread by others: in order, each once, and nothing lost at the end without saying so.
#include "paceline/base/event_loop.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

const EventLoop::Task kNothing = [] {};

TEST(EventLoop, RunsTasksInTheOrderPosted) {
  EventLoop loop;
  std::vector<int> seen;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(loop.post([&, i] { seen.push_back(i); }));
  loop.post([&] { loop.stop(); });
  loop.run(1h, kNothing);
  EXPECT_THAT(seen, ElementsAre(0, 1, 2));
}

TEST(EventLoop, FinishesWhatWasPostedAndThenTakesNoMore) {
  EventLoop loop;
  std::vector<int> seen;
  loop.post([&] {
    loop.stop();
    loop.post([&] { seen.push_back(2); });
  });
  loop.post([&] { seen.push_back(1); });
  loop.run(1h, kNothing);
  EXPECT_THAT(seen, ElementsAre(1, 2));
  EXPECT_FALSE(loop.post([&] { seen.push_back(3); }));
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST(EventLoop, TicksWhileNothingIsPosted) {
  EventLoop loop;
  int ticks = 0;
  loop.run(1ms, [&] {
    if (++ticks == 3) loop.stop();
  });
  EXPECT_EQ(ticks, 3);
}

TEST(EventLoop, TicksHoweverMuchIsPosted) {
  EventLoop loop;
  EventLoop::Task again = [&] { loop.post(again); };
  loop.post(again);
  bool ticked = false;
  loop.run(1ms, [&] {
    ticked = true;
    again = [] {};
    loop.stop();
  });
  EXPECT_TRUE(ticked);
}

TEST(EventLoop, TasksOfEveryThreadRunOnceAndInItsOrder) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 2000;
  EventLoop loop;
  std::vector<std::vector<int>> seen(kThreads);
  std::atomic<int> done = 0;
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) EXPECT_TRUE(loop.post([&, t, i] { seen[t].push_back(i); }));
      if (++done == kThreads) loop.post([&] { loop.stop(); });
    });
  }
  loop.run(1h, kNothing);
  for (const std::vector<int>& one : seen) {
    ASSERT_EQ(one.size(), static_cast<std::size_t>(kTasks));
    for (int i = 0; i < kTasks; ++i) ASSERT_EQ(one[static_cast<std::size_t>(i)], i);
  }
}

}  // namespace
}  // namespace paceline
