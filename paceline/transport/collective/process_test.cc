// The same schedules between real processes over real shared memory. Members are killed at any moment.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/transport/collective/execution.h"
#include "paceline/transport/collective/progress.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::collective {
namespace {

constexpr int kMembers = 4;
constexpr std::int64_t kElements = 100'000;
constexpr std::int64_t kChunk = 1024;

// The test's command to the members: the attempt, and who is alive. One word, so that both change at once.
constexpr std::uint64_t command_word(std::int64_t attempt, std::uint32_t alive) {
  return static_cast<std::uint64_t>(attempt) << 8 | alive;
}

struct Memory {
  std::atomic<std::uint64_t> command;
  std::atomic<std::uint64_t> progress[kMembers];
  float inputs[kMembers][kElements];
  float accumulators[kMembers][kElements];
};

float weight(int member) { return 0.5f + static_cast<float>(member); }

std::vector<int> members_of(std::uint32_t alive) {
  std::vector<int> members;
  for (int member = 0; member < kMembers; ++member) {
    if ((alive >> member & 1) != 0) members.push_back(member);
  }
  return members;
}

class SharedFabric final : public Fabric {
 public:
  SharedFabric(Memory& memory, std::uint64_t command, int member)
      : memory_(memory), command_(command), members_(members_of(command & 0xff)), member_(member) {}

  // The attempt is over for all as soon as one member is dead.
  std::optional<std::int64_t> finished(int peer) override {
    if (memory_.command.load() != command_) return std::nullopt;
    return steps_in(memory_.progress[member(peer)].load(std::memory_order_acquire), attempt());
  }
  const float* read(int rank, Source source, Range range) override {
    return (source == Source::kInput ? memory_.inputs : memory_.accumulators)[member(rank)] + range.begin;
  }
  float* write(Range range) override { return memory_.accumulators[member_] + range.begin; }
  void publish(std::int64_t finished) override {
    memory_.progress[member_].store(progress_word(attempt(), finished), std::memory_order_release);
  }

 private:
  std::int64_t attempt() const { return static_cast<std::int64_t>(command_ >> 8); }
  std::size_t member(int rank) const {
    return static_cast<std::size_t>(members_[static_cast<std::size_t>(rank)]);
  }
  Memory& memory_;
  const std::uint64_t command_;
  const std::vector<int> members_;
  const int member_;
};

Plan plan_for(Algorithm algorithm, std::uint32_t alive) {
  return {algorithm, Phases::kAllReduce, static_cast<int>(members_of(alive).size()), kElements, kChunk};
}

int rank_of(std::uint32_t alive, int member) {
  return static_cast<int>(members_of(alive & ((1U << member) - 1)).size());
}

// A member's process: runs each attempt that it is told of, until it is killed.
[[noreturn]] void take_part(Memory& memory, Algorithm algorithm, int member, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // for a test that is killed because it takes too long
  if (getppid() != parent) _exit(1);
  std::uint64_t carried_out = 0;
  while (true) {
    const std::uint64_t command = memory.command.load();
    if (command == carried_out) {
      std::this_thread::yield();
      continue;
    }
    carried_out = command;
    const auto alive = static_cast<std::uint32_t>(command & 0xff);
    std::vector<float> weights;
    for (const int one : members_of(alive)) weights.push_back(weight(one));
    SharedFabric fabric(memory, command, member);
    Execution execution(plan_for(algorithm, alive), rank_of(alive, member), weights, fabric);
    while (execution.advance().state == Standing::kBlocked) std::this_thread::yield();
  }
}

struct Group {
  Group(Memory& shared, Algorithm of, std::uint64_t seed) : memory(shared), algorithm(of), rng(seed) {
    memory.command.store(0);
    const pid_t parent = getpid();
    for (int member = 0; member < kMembers; ++member) {
      memory.progress[member].store(0);
      for (float& value : memory.inputs[member]) value = static_cast<float>(rng.uniform());
      pids.push_back(fork());
      if (pids.back() == 0) take_part(memory, algorithm, member, parent);
    }
  }
  ~Group() {
    for (int member = 0; member < kMembers; ++member) end(member);
  }
  void end(int member) {
    pid_t& pid = pids[static_cast<std::size_t>(member)];
    if (pid == 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }
  bool finished(std::int64_t attempt, std::uint32_t among) const {
    for (const int member : members_of(among)) {
      const auto steps = steps_in(memory.progress[member].load(std::memory_order_acquire), attempt);
      const auto all = steps_of(plan_for(algorithm, among), rank_of(among, member)).size();
      if (steps != static_cast<std::int64_t>(all)) return false;
    }
    return true;
  }
  void expect_sum(std::uint32_t among, std::uint32_t holders) const {
    const std::vector<int> members = members_of(among);
    for (std::size_t i = 0; i < kElements; ++i) {
      double want = 0;
      for (const int member : members) want += static_cast<double>(weight(member)) * memory.inputs[member][i];
      for (const int holder : members_of(holders))
        ASSERT_NEAR(memory.accumulators[holder][i], want, 1e-4) << "member " << holder << ", element " << i;
    }
  }

  Memory& memory;
  const Algorithm algorithm;
  Rng rng;
  std::vector<pid_t> pids;
};

TEST(Processes, AMemberIsKilledAtAnyMomentAndTheSurvivorsHaveOneResult) {
  const auto shared = ipc::SharedMemory::create("paceline-test", sizeof(Memory)).value();
  const auto mapping = shared.map(0, sizeof(Memory), true).value();
  Memory& memory = *new (mapping.data()) Memory;
  int again = 0;
  // There are more rounds if no member has died in time.
  constexpr std::uint64_t kRounds = 30, kMost = 100 * kRounds;
  for (std::uint64_t round = 0; round < kRounds || (again == 0 && round < kMost); ++round) {
    SCOPED_TRACE(round);
    Group group(memory, round % 2 == 0 ? Algorithm::kRing : Algorithm::kSharedMemory, round);
    std::uint32_t alive = (1U << kMembers) - 1;
    const int victim = static_cast<int>(group.rng.below(kMembers));
    memory.command.store(command_word(1, alive));
    // A whole attempt takes about a millisecond.
    std::this_thread::sleep_for(std::chrono::microseconds(group.rng.below(1500)));
    group.end(victim);
    alive &= ~(1U << victim);
    std::uint32_t members = (1U << kMembers) - 1;
    // The victim's own part is finished, or never will be.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const auto mine = steps_in(memory.progress[victim].load(), 1).value();
    const auto all = steps_of(plan_for(group.algorithm, members), victim).size();
    std::int64_t attempt = 1;
    if (mine < static_cast<std::int64_t>(all)) {
      members = alive;
      memory.command.store(command_word(++attempt, alive));
      ++again;
    }
    while (!group.finished(attempt, members)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the survivors hang";
      std::this_thread::yield();
    }
    group.expect_sum(members, alive);
  }
  EXPECT_GT(again, 0) << "no member was killed within an attempt";
}

}  // namespace
}  // namespace paceline::collective
