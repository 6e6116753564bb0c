// Plans that the Controller adopts while a fact's orders are carried out. The test adds them to the real orders, because
// the planner rarely adopts a plan in that moment.
#include "paceline/decisions/coordinator/worker_membership.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/config/coordinator_settings.h"

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;

// A run of two devices that plans anew. Each device is a replica of its own at first.
class PlansInARow : public testing::Test {
 protected:
  PlansInARow() : options_(two_devices()), workers_(options_, processes_, course_, out_) {
    course_.begin_event(at_, at_);
    ServerHello hello;
    EXPECT_FALSE(processes_.servers.take_place(ServerPeer(0), hello, at_));
    for (const int n : {0, 1}) {
      say(n, WorkerHello{fmt::format("w{}", n)});
      say(n, attached());
    }
    ServerStarted started;
    started.board_paths.push_back("board");
    EXPECT_TRUE(processes_.servers.started(ServerId(0), started).ok());
    workers_.send_boards();
    for (const int n : {0, 1}) {
      say(n, WorkerJoined());
      say(n, RoleTaken{.replica = ReplicaId(n)});
      ServerMapped mapped;
      mapped.replica = ReplicaId(n);
      EXPECT_TRUE(workers_.mapped(ServerId(0), mapped).ok());
    }
    EXPECT_TRUE(course_.training());
    out_.take();
  }

  // The Controller adopts a plan of this device alone with the next order.
  void adopts_with_next_order(int device) { adopts_.push_back(device); }
  // A plan of this device alone.
  control::PlanAdopted plan_of(int device) const {
    control::PlanAdopted adopted;
    adopted.plan = options_.job.plan;
    adopted.plan.replicas = {options_.job.plan.replicas[static_cast<std::size_t>(device)]};
    adopted.plan.replicas[0].samples = 16;
    adopted.line = fmt::format("w{} alone", device);
    return adopted;
  }
  // `records`: what the worker has found in a shard.
  void is_ready(int worker, std::optional<std::int64_t> records = std::nullopt) {
    WorkerReady ready{
        .replica = ReplicaId(worker), .clock = Clock(1), .compute = Duration(10), .worked = Duration(10)};
    if (records) ready.lengths.push_back({.records = *records});
    say(worker, ready);
  }

  // The actions since the last call that are about replicas and plans.
  std::vector<std::string> actions() {
    std::vector<std::string> lines;
    for (const Action& action : out_.take()) {
      if (const auto* send = std::get_if<SendWorker>(&action)) {
        if (const auto* role = std::get_if<Role>(&send->order))
          lines.push_back(fmt::format("w{}: role in {}", send->to, role->replica));
        if (const auto* dissolve = std::get_if<Dissolve>(&send->order))
          lines.push_back(fmt::format("w{}: dissolve {}", send->to, dissolve->replica));
      } else if (const auto* all = std::get_if<SendServers>(&action)) {
        if (const auto* unmap = std::get_if<UnmapGradient>(&all->order))
          lines.push_back(fmt::format("server: unmap {}", unmap->replica));
      } else if (const auto* tell = std::get_if<Tell>(&action); tell != nullptr && tell->remember) {
        lines.push_back(tell->line);
      }
    }
    return lines;
  }

  WorkerMembership& workers() { return workers_; }
  const Course& course() const { return course_; }

 private:
  static AttemptOptions two_devices() {
    AttemptOptions options;
    options.job_toml =
        "name = \"small\"\nbatch = 16\nepochs = 100\nparallel = \"joint\"\nmicro_batch = 2\n"
        "[[device]]\ncount = 2\n[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
        "[[pipeline]]\ndevices = [\"w0\"]\nsamples = 8\n[[pipeline]]\ndevices = [\"w1\"]\nsamples = 8\n";
    options.job = config::coordinator_settings(config::parse_job(options.job_toml, "job.toml").value());
    return options;
  }
  static WorkerAttached attached() {
    Layout layout;
    layout.add("a", TensorKind::kParameter, {8});
    WorkerAttached message;
    message.dataset_size = 64;
    message.layout = layout;
    message.gradient_path = "gradient";
    return message;
  }

  void say(int worker, WorkerMessage message) {
    workers_.take(WorkerSaid{WorkerPeer(worker), std::move(message), "somewhere"});
  }

  void carry_out(const control::Order& order) {
    const auto* release = std::get_if<control::Release>(&order);
    LiveReplica* replica = release != nullptr ? processes_.replicas.find(release->replica) : nullptr;
    if (replica != nullptr) replica->lease = release->lease;
    if (adopts_.empty()) return;
    workers_.follow_later(plan_of(adopts_.front()));
    adopts_.pop_front();
  }

  const SteadyTime at_{std::chrono::hours(1)};
  const AttemptOptions options_;
  Outbox out_;
  Processes processes_{options_, out_};
  Course course_{options_, processes_, out_, [this](const auto& order, const auto&) { carry_out(order); },
                 TimedController::Waiting{}};
  WorkerMembership workers_;
  std::deque<int> adopts_;
};

TEST_F(PlansInARow, ReplicaThatLeftIsUnmappedBeforeThePlanThatItsLeavingCausedIsFollowed) {
  is_ready(0);
  adopts_with_next_order(0);
  workers().leave(WorkerPeer(1));
  EXPECT_THAT(actions(), ElementsAre("server: unmap 1", "w0: dissolve 0", "server: unmap 0", "w0: role in 2",
                                     "w0 alone"));
}

TEST_F(PlansInARow, AShardThatHasAnotherLengthForAnotherWorkerEndsTheRun) {
  is_ready(0, 20);
  EXPECT_TRUE(course().training());
  is_ready(1, 15);
  EXPECT_THAT(std::string(course().result().message()),
              testing::HasSubstr("w1 found 15 records in the shard"));
  EXPECT_FALSE(course().open());
}

TEST_F(PlansInARow, PlanThatComesWhileAnotherOneIsFollowedIsFollowedAfterIt) {
  is_ready(1);
  adopts_with_next_order(1);  // when replica 0 leaves, the gradient of replica 1 is committed
  workers().follow_later(plan_of(0));
  ASSERT_TRUE(workers().tell_controller(control::DeviceJoined{0}).ok());
  EXPECT_THAT(actions(),
              ElementsAre("w0: dissolve 0", "server: unmap 0", "w1: dissolve 1", "server: unmap 1",
                          "w0: role in 2", "w0 alone", "w0: dissolve 2", "w1: role in 3", "w1 alone"));
}

}  // namespace
}  // namespace paceline::coordinator
