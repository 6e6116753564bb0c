// Work handed to one thread by others: in order, each once, and nothing lost at the end without saying so.
// Timers ring at their time, not before, and watches tell of descriptors that are ready.
#include "paceline/base/event_loop.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "paceline/base/check.h"
#include "paceline/base/file_descriptor.h"

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

TEST(EventLoop, TimersRingInTheOrderOfTheirTimesNotBeforeThem) {
  EventLoop loop;
  const auto start = std::chrono::steady_clock::now();
  std::vector<int> seen;
  Timer last(loop, [&] { loop.stop(); });
  Timer second(loop, [&] {
    EXPECT_GE(std::chrono::steady_clock::now(), start + 2ms);
    seen.push_back(2);
  });
  Timer first(loop, [&] {
    EXPECT_GE(std::chrono::steady_clock::now(), start + 1ms);
    seen.push_back(1);
  });
  loop.post(kNothing);  // wakes the loop before any of them
  last.set(start + 3ms);
  second.set(start + 2ms);
  first.set(start + 1ms);
  // With a tick in an hour, only the timers can wake the loop.
  loop.run(1h, kNothing);
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST(EventLoop, TimersOfOneTimeAllRing) {
  EventLoop loop;
  int rung = 0;
  const auto ring = [&] {
    if (++rung == 2) loop.stop();
  };
  Timer one(loop, ring);
  Timer other(loop, ring);
  const auto when = std::chrono::steady_clock::now();
  one.set(when);
  other.set(when);
  loop.run(1h, kNothing);
  EXPECT_EQ(rung, 2);
}

TEST(EventLoop, ATimerRingsOnceAtTheTimeItWasSetToLast) {
  EventLoop loop;
  const auto start = std::chrono::steady_clock::now();
  std::vector<int> seen;
  Timer later(loop, [&] { seen.push_back(1); });
  Timer sooner(loop, [&] { seen.push_back(2); });
  Timer end(loop, [&] { loop.stop(); });
  later.set(start);
  later.set(start + 2ms);
  sooner.set(start + 1h);
  sooner.set(start + 1ms);
  end.set(start + 3ms);
  loop.run(1h, kNothing);
  EXPECT_THAT(seen, ElementsAre(2, 1));
}

TEST(EventLoop, ATimerThatIsCancelledOrGoneDoesNotRing) {
  EventLoop loop;
  const auto now = std::chrono::steady_clock::now();
  bool rung = false;
  const auto ring = [&] { rung = true; };
  Timer cancelled(loop, ring);
  cancelled.set(now);
  cancelled.cancel();
  std::optional<Timer> gone(std::in_place, loop, ring);
  gone->set(now);
  gone.reset();
  Timer end(loop, [&] { loop.stop(); });
  end.set(now + 1ms);
  loop.run(1h, kNothing);
  EXPECT_FALSE(rung);
}

TEST(EventLoop, NoTimerRingsAfterTheStop) {
  EventLoop loop;
  bool rung = false;
  Timer timer(loop, [&] { rung = true; });
  loop.post([&] {
    timer.set(std::chrono::steady_clock::now());
    loop.stop();
    loop.post([] {});
  });
  loop.run(1h, kNothing);
  EXPECT_FALSE(rung);
}

TEST(EventLoop, ATimerThatSetsItselfLeavesRoomForTasksAndTicks) {
  EventLoop loop;
  Timer again(loop, [&] { again.set(std::chrono::steady_clock::now()); });
  again.set(std::chrono::steady_clock::now());
  bool task_ran = false;
  loop.post([&] { loop.post([&] { task_ran = true; }); });
  loop.run(1ms, [&] {
    if (task_ran) loop.stop();
  });
  EXPECT_TRUE(task_ran);
}

// A timer set from a posted task must cut the wait that follows short, whatever other threads post.
TEST(EventLoop, ATimerSetByATaskOfAnotherThreadRings) {
  EventLoop loop;
  Timer timer(loop, [&] { loop.stop(); });
  std::jthread other([&] { loop.post([&] { timer.set(std::chrono::steady_clock::now() + 1ms); }); });
  loop.run(1h, kNothing);
}

struct Pipe {
  Pipe() {
    int ends[2];
    PACELINE_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "no pipe");
    read_end = FileDescriptor(ends[0]);
    write_end = FileDescriptor(ends[1]);
  }
  void put() const { ASSERT_EQ(::write(write_end.get(), "x", 1), 1); }
  void take() const {
    char one = 0;
    ASSERT_EQ(::read(read_end.get(), &one, 1), 1);
  }
  FileDescriptor read_end, write_end;
};

TEST(EventLoop, AWatchTellsOfADescriptorUntilItIsRead) {
  EventLoop loop;
  const Pipe pipe;
  int told = 0;
  const Watch watch(loop, pipe.read_end.get(), [&] {
    if (++told == 2) pipe.take();
  });
  Timer end(loop, [&] { loop.stop(); });
  std::jthread other([&] { pipe.put(); });
  Timer look(loop, [&] {
    if (told == 2) return end.set(std::chrono::steady_clock::now() + 2ms);
    look.set(std::chrono::steady_clock::now() + 1ms);
  });
  look.set(std::chrono::steady_clock::now());
  loop.run(1h, kNothing);
  EXPECT_EQ(told, 2);
}

TEST(EventLoop, OnlyTheDescriptorWakesALoopThatHasNothingElseToDo) {
  EventLoop loop;
  const Pipe pipe;
  const Watch watch(loop, pipe.read_end.get(), [&] { loop.stop(); });
  std::jthread other([&] {
    std::this_thread::sleep_for(2ms);
    pipe.put();
  });
  loop.run(1h, kNothing);
}

TEST(EventLoop, AWatchMayEndItselfAndOthersWhileItIsCalled) {
  EventLoop loop;
  const Pipe pipes[2];
  std::optional<Watch> watches[2];
  int told = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    watches[i].emplace(loop, pipes[i].read_end.get(), [&] {
      told += 1;
      watches[0].reset();
      watches[1].reset();
      loop.post([&] { loop.stop(); });
    });
    pipes[i].put();
  }
  loop.run(1h, kNothing);
  EXPECT_EQ(told, 1);
}

TEST(EventLoop, AWatchTellsOfRoomToWriteOnlyIfAsked) {
  EventLoop loop;
  const Pipe pipe;
  int told = 0;
  Watch watch(loop, pipe.write_end.get(), [&] {
    told += 1;
    watch.ask_for(false, false);
  });
  loop.post([&] {
    EXPECT_EQ(told, 0);
    watch.ask_for(false, true);
  });
  int ticks = 0;
  loop.run(1ms, [&] {
    if (++ticks == 3) loop.stop();
  });
  EXPECT_EQ(told, 1);
}

TEST(EventLoop, ADescriptorThatIsNeverReadLeavesRoomForTasksTimersAndTicks) {
  EventLoop loop;
  const Pipe pipe;
  pipe.put();
  const Watch watch(loop, pipe.read_end.get(), kNothing);
  bool rung = false, ran = false;
  Timer timer(loop, [&] { rung = true; });
  timer.set(std::chrono::steady_clock::now() + 1ms);
  std::jthread other([&] { loop.post([&] { ran = true; }); });
  loop.run(1ms, [&] {
    if (rung && ran) loop.stop();
  });
  EXPECT_TRUE(rung && ran);
}

}  // namespace
}  // namespace paceline
