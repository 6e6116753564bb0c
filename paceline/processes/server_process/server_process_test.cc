// A server over a session whose orders are a script, with the memory, boards and files of a real one.
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/wire/disconnect.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/processes/server/server.h"
#include "paceline/processes/server_process/live_shards.h"
#include "paceline/processes/server_process/session.h"
#include "paceline/processes/server_process/update_times.h"
#include "paceline/records/store/shard_files.h"

namespace paceline::server_process {
namespace {

namespace fs = std::filesystem;
using testing::Each, testing::ElementsAre, testing::HasSubstr, testing::IsEmpty;

constexpr std::chrono::seconds kLong{60};

class Script final : public Session {
 public:
  std::optional<wire::ServerOrder> next() override {
    if (steps_.empty()) return std::nullopt;
    Step step = std::move(steps_.front());
    steps_.pop_front();
    if (step.before) step.before();
    return std::move(step.order);
  }
  bool send(wire::ServerMessage message) override {
    {
      const std::lock_guard lock(mutex_);
      said_.push_back(std::move(message));
    }
    said_more_.notify_all();
    return true;
  }
  void wait_until_said(std::size_t messages) {
    std::unique_lock lock(mutex_);
    said_more_.wait_for(lock, kLong, [&] { return said_.size() >= messages; });
  }
  absl::Status unless_disconnected(const absl::Status& outcome) override { return outcome; }
  std::unique_ptr<store::CheckpointFiles> files(bool, const std::string& dir, std::stop_token,
                                                std::vector<std::string>) override {
    return std::make_unique<store::FolderFiles>(dir);
  }

  // Happens before the server gets the next order.
  void happens(std::function<void()> what) { before_ = std::move(what); }
  // The next order, to be filled in.
  wire::ServerOrder& order() { return steps_.emplace_back(Step{std::exchange(before_, nullptr), {}}).order; }
  // The order that was added last.
  wire::ServerOrder& newest() { return steps_.back().order; }
  std::vector<wire::ServerMessage> take_said() { return std::exchange(said_, {}); }

 private:
  struct Step {
    std::function<void()> before;
    wire::ServerOrder order;
  };
  std::deque<Step> steps_;
  std::function<void()> before_;
  std::mutex mutex_;
  std::condition_variable said_more_;
  std::vector<wire::ServerMessage> said_;
};

std::string in_words(const wire::ServerMessage& message) {
  if (message.has_started()) {
    const wire::ServerStarted& started = message.started();
    return started.error().empty() ? "started" : "cannot start: " + started.error();
  }
  if (message.has_mapped())
    return fmt::format("mapped {}{}", message.mapped().replica(),
                       message.mapped().error().empty() ? "" : ": " + message.mapped().error());
  if (message.has_applied()) return fmt::format("applied {}", message.applied().version());
  if (message.has_kept()) return fmt::format("kept {}", message.kept().version());
  if (message.has_written())
    return fmt::format("written {}{}", message.written().version(),
                       message.written().error().empty() ? "" : ": " + message.written().error());
  if (message.has_failed()) {
    const wire::ServerFailed& failed = message.failed();
    std::string text = "failed: " + failed.error();
    if (failed.diverged() > 0) text += fmt::format("; diverged at {}", failed.diverged());
    for (const std::int32_t replica : failed.not_finite())
      text += fmt::format("; replica {} is not finite", replica);
    if (failed.has_not_here()) text += fmt::format("; replica {} is not here", failed.not_here());
    return text;
  }
  return message.ShortDebugString();
}

class ServerProcessTest : public testing::Test {
 protected:
  ServerProcessTest() {
    layout_.add("a", ps::TensorKind::kParameter, {3});
    layout_.add("b", ps::TensorKind::kParameter, {40});
    for (int i = 0; i < 2; ++i) workers_.push_back(memory::GradientWriter::create(layout_.size()).value());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ServerProcessTest() override { fs::remove_all(folder_); }

  // Every number of a worker's tensors, as its gradient of iteration `clock`.
  void set_gradient(int worker, std::int64_t clock, float value) {
    memory::GradientWriter& writer = workers_[static_cast<std::size_t>(worker)];
    for (const ps::TensorSpec& tensor : layout_.tensors()) {
      const std::span<float> place = writer.gradient().subspan(static_cast<std::size_t>(tensor.offset),
                                                               static_cast<std::size_t>(tensor.size));
      std::fill(place.begin(), place.end(), value);
    }
    writer.stamp(Clock(clock));
  }

  // With weights of 1.
  wire::ServerStart& start() {
    script_.happens([this] { set_gradient(0, 0, 1); });
    wire::ServerStart& start = *script_.order().mutable_start();
    start.set_job_toml(
        "name = \"small\"\n[optimizer]\nname = \"sgd\"\nlr = 0.5\nmomentum = 0.5\n[cluster]\nserver_threads "
        "= 1\n");
    start.set_shard_count(1);
    *start.mutable_part() = wire::to_wire(layout_);
    start.set_whole_floats(layout_.size());
    start.set_readers(2);
    start.set_weights_path(workers_[0].path());
    start.set_announce(true);
    start.set_attempt("1");
    return start;
  }
  void map(int worker) {
    wire::MapGradient& map = *script_.order().mutable_map_gradient();
    map.set_replica(worker);
    map.set_path(workers_[static_cast<std::size_t>(worker)].path());
  }
  // A commit of these replicas' gradients of iteration `clock`, which are all `gradient`.
  void apply(std::int64_t version, std::int64_t clock, const std::vector<int>& replicas, float gradient) {
    script_.happens([this, clock, replicas, gradient] {
      for (const int replica : replicas) set_gradient(replica, clock, gradient);
    });
    wire::Apply& apply = *script_.order().mutable_apply();
    apply.set_version(version);
    apply.set_learning_rate(0.5);
    apply.set_fraction(1);
    for (const int replica : replicas) {
      wire::Apply::Member& member = *apply.add_members();
      member.set_replica(replica);
      member.set_clock(clock);
      member.set_weight(1.0 / static_cast<double>(replicas.size()));
      member.set_share(1.0 / static_cast<double>(replicas.size()));
    }
  }
  void write_checkpoint(std::int64_t version, const fs::path& folder) {
    wire::WriteCheckpoint& write = *script_.order().mutable_write_checkpoint();
    write.set_version(version);
    write.set_dir(folder.string());
  }

  // The commit is expected, and what it orders happens later.
  void expect(std::int64_t version, std::int64_t clock, const std::vector<int>& replicas, float gradient) {
    apply(version, clock, replicas, gradient);
    wire::ServerOrder& order = script_.newest();
    wire::Apply commit = order.apply();
    *order.mutable_expect()->mutable_commit() = std::move(commit);
  }
  // These workers say that their gradients of that iteration are ready, and ring. Returns a reader of the board.
  memory::WeightReader ready(std::int64_t clock, const std::vector<int>& replicas) {
    auto reader = memory::WeightReader::open(state_.shards->own().board().path(), layout_.size(), 1).value();
    for (const int replica : replicas) {
      workers_[static_cast<std::size_t>(replica)].say_ready(ReplicaId(replica), Clock(clock));
      reader.ring();
    }
    return reader;
  }

  // Carries out the orders of the script. Returns the server's messages.
  std::vector<std::string> serve() {
    {
      UpdateTimes times;
      LiveShards shards(script_, state_, times, nullptr);
      server::Server server(script_, state_.log, shards);
      outcome_ = server_process::serve(script_, server, [&] { return shards.bell(); });
    }
    std::vector<std::string> words;
    for (const wire::ServerMessage& message : script_.take_said()) words.push_back(in_words(message));
    return words;
  }
  // The weights of the own shard's latest version.
  std::vector<float> weights() const {
    const std::span<const float> weights = state_.shards->own().weights();
    return {weights.begin(), weights.end()};
  }
  float first_weight() const { return weights().front(); }

  const fs::path folder_ = fs::temp_directory_path() / fmt::format("paceline-server-test-{}", getpid());
  ps::Layout layout_;
  std::vector<memory::GradientWriter> workers_;
  ServerState state_;
  Script script_;
  absl::Status outcome_;
};

TEST_F(ServerProcessTest, MakesAnExpectedVersionWhenTheLastMemberRings) {
  start();
  map(0);
  map(1);
  expect(1, 0, {0, 1}, 1);
  // These orders come while version 1 is made early.
  script_.happens([this] { EXPECT_TRUE(ready(0, {0, 1}).pin(Version(1), kLong)); });
  script_.order().mutable_keep()->set_version(0);
  apply(1, 0, {0, 1}, 1);
  script_.order().mutable_drop()->set_version(0);
  apply(2, 1, {1}, 1);
  EXPECT_THAT(serve(), ElementsAre("started", "mapped 0", "mapped 1", "kept 0", "applied 1", "applied 2"));
  EXPECT_FLOAT_EQ(first_weight(), 1 - 0.5F - 0.75F);
}

TEST_F(ServerProcessTest, TellsOfAnExpectedVersionThatCannotBeMade) {
  start();
  map(0);
  expect(1, 0, {0}, std::numeric_limits<float>::infinity());
  script_.happens([this] {
    ready(0, {0});
    script_.wait_until_said(3);
  });
  map(1);
  EXPECT_THAT(serve(),
              ElementsAre("started", "mapped 0", HasSubstr("diverged at 1; replica 0 is not finite")));
  EXPECT_THAT(std::string(outcome_.message()), HasSubstr("version 1 is not finite"));
}

// SGD at a rate of 0.5 with momentum 0.5: the steps are 0.5 and 0.75 for gradients of 1.
TEST_F(ServerProcessTest, MakesVersionsFromGradientsOfItsHost) {
  start();
  map(0);
  map(1);
  apply(1, 0, {0, 1}, 1);
  apply(2, 1, {1}, 1);
  EXPECT_THAT(serve(), ElementsAre("started", "mapped 0", "mapped 1", "applied 1", "applied 2"));
  EXPECT_EQ(outcome_, wire::coordinator_lost());
  EXPECT_FLOAT_EQ(first_weight(), 1 - 0.5F - 0.75F);
}

TEST_F(ServerProcessTest, SaysWhoseGradientIsNotHere) {
  start();
  map(0);
  apply(1, 0, {0}, 1);
  apply(2, 1, {0, 1}, 1);
  EXPECT_THAT(serve(), ElementsAre("started", "mapped 0", "applied 1",
                                   "failed: the gradient of replica 1 is not here; replica 1 is not here"));
  EXPECT_FLOAT_EQ(first_weight(), 0.5F) << "the version is not made";
}

TEST_F(ServerProcessTest, TakesNoGradientOfAnotherIteration) {
  start();
  map(0);
  script_.happens([this] { set_gradient(0, 3, 1); });
  wire::Apply& apply = *script_.order().mutable_apply();
  apply.set_version(1);
  apply.add_members()->set_clock(4);
  EXPECT_THAT(serve(),
              ElementsAre("started", "mapped 0",
                          "failed: the worker's buffer holds iteration 3, not 4; replica 0 is not here"));
}

TEST_F(ServerProcessTest, ForgetsAGradientThatIsUnmapped) {
  start();
  map(0);
  script_.order().mutable_unmap_gradient()->set_replica(0);
  apply(1, 0, {0}, 1);
  EXPECT_THAT(serve(), ElementsAre("started", "mapped 0", HasSubstr("replica 0 is not here")));
}

TEST_F(ServerProcessTest, SaysThatAWorkersMemoryIsGone) {
  start();
  wire::MapGradient& map = *script_.order().mutable_map_gradient();
  map.set_replica(5);
  map.set_path("/proc/self/fd/100000");
  EXPECT_THAT(serve(), ElementsAre("started", HasSubstr("mapped 5: ")));
}

TEST_F(ServerProcessTest, CannotStartWithoutTheFirstWeights) {
  start().set_weights_path("/proc/self/fd/100000");
  EXPECT_THAT(serve(), ElementsAre(HasSubstr("cannot start: ")));
  EXPECT_FALSE(state_.shards);
}

TEST_F(ServerProcessTest, GoesOnFromAnOptimizersFirstState) {
  workers_[0] = memory::GradientWriter::create(layout_.size(), 1, 7).value();
  workers_[0].first_state().front() = 2;
  start();
  map(0);
  apply(1, 0, {0}, 1);
  EXPECT_THAT(serve(), ElementsAre("started", "mapped 0", "applied 1"));
  const std::span<const float> weights = state_.shards->own().weights();
  EXPECT_EQ(weights[0], 0) << "1 - 0.5 * (0.5 * 2 + 1)";
  EXPECT_EQ(weights[1], 0.5f);
  EXPECT_EQ(state_.shards->own().optimizer_state().fractions, 8);
}

TEST_F(ServerProcessTest, CannotStartWithTheStateOfAnotherOptimizer) {
  workers_[0] = memory::GradientWriter::create(layout_.size(), 2, 7).value();
  start();
  EXPECT_THAT(serve(),
              ElementsAre(HasSubstr("the optimizer's first state is not one of this job's optimizer")));
}

TEST_F(ServerProcessTest, SaysWhichGradientsMadeAVersionThatIsNotFinite) {
  start();
  map(0);
  map(1);
  apply(1, 0, {0, 1}, 1);
  apply(2, 1, {0, 1}, 1);
  script_.happens([this] {
    set_gradient(0, 2, 1);
    set_gradient(1, 2, std::numeric_limits<float>::quiet_NaN());
  });
  wire::Apply& apply = *script_.order().mutable_apply();
  apply.set_version(3);
  apply.set_learning_rate(0.5);
  apply.set_fraction(1);
  for (const int replica : {0, 1}) {
    wire::Apply::Member& member = *apply.add_members();
    member.set_replica(replica);
    member.set_clock(2);
    member.set_weight(0.5);
    member.set_share(0.5);
  }
  EXPECT_THAT(serve(),
              ElementsAre("started", "mapped 0", "mapped 1", "applied 1", "applied 2",
                          "failed: version 3 is not finite; diverged at 3; replica 1 is not finite"));
}

TEST_F(ServerProcessTest, RefusesOrdersBeforeTheStart) {
  map(0);
  EXPECT_THAT(serve(), ElementsAre("failed: the coordinator sent an order before the start"));
}

TEST_F(ServerProcessTest, KeepsAVersionForTheEvaluatorUntilItIsDropped) {
  start();
  map(0);
  apply(1, 0, {0}, 1);
  script_.order().mutable_keep()->set_version(1);
  apply(2, 1, {0}, 1);
  EXPECT_THAT(serve(), ElementsAre("started", "mapped 0", "applied 1", "kept 1", "applied 2"));
  auto reader = memory::WeightReader::open(state_.shards->own().board().path(), layout_.size(), 0).value();
  ASSERT_TRUE(reader.pin_exactly(Version(1)));
  EXPECT_FLOAT_EQ(reader.pin_exactly(Version(1))->weights[0], 0.5F);
  reader.unpin();
  state_.shards->own().board().drop(Version(1));
}

// A server that begins with the checkpoint goes on as one that was never interrupted.
TEST_F(ServerProcessTest, ACheckpointHasTheWeightsAndTheOptimizersState) {
  start();
  map(0);
  apply(1, 0, {0}, 1);
  write_checkpoint(1, folder_);
  apply(2, 1, {0}, -0.3F);
  EXPECT_THAT(serve(),
              testing::UnorderedElementsAre("started", "mapped 0", "applied 1", "written 1", "applied 2"));
  const std::vector<float> uninterrupted = weights();
  wire::ServerStart& again = start();
  again.clear_weights_path();
  again.set_checkpoint_dir(folder_.string());
  again.set_version(1);
  map(0);
  apply(2, 1, {0}, -0.3F);
  EXPECT_THAT(serve(), ElementsAre("started", "mapped 0", "applied 2"));
  EXPECT_EQ(weights(), uninterrupted);
}

TEST_F(ServerProcessTest, SaysThatACheckpointCannotBeWritten) {
  start();
  map(0);
  apply(1, 0, {0}, 1);
  write_checkpoint(1, folder_ / "none");
  EXPECT_THAT(serve(), ElementsAre("started", "mapped 0", "applied 1", HasSubstr("written 1: ")));
}

TEST_F(ServerProcessTest, ADamagedCheckpointIsNamed) {
  wire::ServerStart& order = start();
  order.clear_weights_path();
  order.set_checkpoint_dir((folder_ / "none").string());
  order.set_version(1);
  EXPECT_THAT(serve(), ElementsAre(HasSubstr((folder_ / "none").string())));
}

// The launcher's keep has the memory of a server that was killed, and the next server goes on from there.
TEST_F(ServerProcessTest, TakesUpWhatAKilledServerLeft) {
  const ipc::DescriptorKeep launchers = ipc::DescriptorKeep::open().value();
  const auto inherit = [&] {
    state_ = ServerState();
    state_.keep.emplace(FileDescriptor(dup(launchers.ends()[0])), FileDescriptor(dup(launchers.ends()[1])));
    state_.left = KeptMemory::look(*state_.keep);
  };
  inherit();
  start();
  map(0);
  apply(1, 0, {0}, 1);
  apply(2, 1, {0}, -0.3F);
  serve();
  const std::vector<float> uninterrupted = weights();
  inherit();
  start();
  map(0);
  apply(1, 0, {0}, 1);
  serve();
  inherit();
  ASSERT_TRUE(state_.left);
  wire::ServerStart& again = start();
  again.clear_weights_path();
  again.set_take_up(true);
  again.set_version(1);
  map(0);
  apply(2, 1, {0}, -0.3F);
  EXPECT_THAT(serve(), ElementsAre("started", "mapped 0", "applied 2"));
  EXPECT_EQ(weights(), uninterrupted);
}

TEST_F(ServerProcessTest, SaysThatNothingIsLeftToTakeUp) {
  start().set_take_up(true);
  EXPECT_THAT(serve(), ElementsAre("cannot start: nothing of it is left"));
}

TEST_F(ServerProcessTest, RefusesOrdersAboutOtherHostsIfThereAreNone) {
  start();
  script_.order().mutable_send_early()->set_replica(0);
  EXPECT_THAT(serve(), ElementsAre("started", HasSubstr("speaks of other hosts")));
  start().add_hosts();
  EXPECT_THAT(serve(), ElementsAre(HasSubstr("speaks of other hosts")));
}

}  // namespace
}  // namespace paceline::server_process
