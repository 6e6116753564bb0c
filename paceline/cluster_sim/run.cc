#include "paceline/cluster_sim/run.h"

#include <algorithm>
#include <memory>

#include "paceline/cluster_sim/launcher.h"
#include "paceline/cluster_sim/worker_process.h"

namespace paceline::cluster_sim {

namespace {

constexpr std::chrono::seconds kFaultsEnd{15};
constexpr std::chrono::seconds kLongest{400};

// Everything of one run, and a person who starts the launcher again, and now and then a worker by hand.
class Simulation {
 public:
  Simulation(std::uint64_t seed, bool tracing, Break broken)
      : world_(seed, tracing),
        scenario_(scenario_of(world_)),
        watch_(world_, static_cast<int>(scenario_.job.servers)),
        coordinator_(world_, network_, scenario_, folder_, watch_, broken),
        cluster_{world_, network_, scenario_, folder_, watch_, broken, coordinator_, {}, {}, {}} {
    for (int rank = 0; rank < scenario_.job.servers; ++rank)
      cluster_.servers.push_back(add(std::make_unique<ServerProcess>(cluster_, rank)));
    for (const auto& device : scenario_.job.devices)
      cluster_.workers.push_back(
          add(std::make_unique<WorkerProcess>(cluster_, device.name, world_.between(5, 60).count())));
    Process* const evaluator = add(std::make_unique<EvaluatorProcess>(cluster_));
    std::vector<std::pair<Process*, supervisor::MemberKind>> members;
    for (Process* server : cluster_.servers) members.emplace_back(server, supervisor::MemberKind::kServer);
    for (Process* worker : cluster_.workers) members.emplace_back(worker, supervisor::MemberKind::kWorker);
    members.emplace_back(evaluator, supervisor::MemberKind::kEvaluator);
    launcher_.emplace(world_, network_, scenario_, folder_, coordinator_, std::move(members));
  }

  Outcome run() {
    world_.trace("{}", scenario_.job_toml);
    const SteadyTime start = world_.now();
    launcher_->start();
    for (int i = 0; i < scenario_.faults; ++i) world_.after(fault_time(), [this] { fault(); });
    if (scenario_.stopped)
      world_.after(world_.between(50, 4000), [this] {
        if (!launcher_->alive()) return;
        world_.trace("somebody stops the run");
        stop_asked_ = true;
        launcher_->stop("interrupted");
      });
    world_.after(Milliseconds(100), [this] { look_after(); });
    while (world_.complaint().empty() && !over() && world_.step(start + kLongest)) {
    }
    Outcome outcome;
    if (world_.complaint().empty()) judge();
    outcome.broken = world_.complaint();
    const auto& end = launcher_->outcome();
    outcome.ended = !end ? "it did not end" : end->ok() ? "done" : std::string(end->message());
    outcome.attempts = static_cast<int>(folder_.attempts.size());
    outcome.faults = scenario_.faults;
    outcome.seconds = std::chrono::duration<double>(world_.now() - start).count();
    outcome.trace = world_.lines();
    outcome.transitions = coordinator_.transitions();
    return outcome;
  }

 private:
  template <class One>
  One* add(std::unique_ptr<One> process) {
    One* raw = process.get();
    processes_.push_back(std::move(process));
    return raw;
  }

  Milliseconds fault_time() {
    return world_.chance(0.8)
               ? world_.between(0, 3000)
               : world_.between(3000, std::chrono::duration<double, std::milli>(kFaultsEnd).count());
  }

  Process& victim() {
    const std::uint64_t which = world_.rng().below(4);
    if (which == 0) return coordinator_;
    if (which == 1) return *cluster_.workers[world_.rng().below(cluster_.workers.size())];
    if (which == 2) return *cluster_.servers[world_.rng().below(cluster_.servers.size())];
    return *processes_[world_.rng().below(processes_.size())];
  }

  void fault() {
    if (coordinator_.outcome()) return;
    const std::uint64_t what = world_.rng().below(10);
    if (world_.chance(0.05)) return kill_launcher();
    Process& process = victim();
    if (what < 5) {
      kill(process);
    } else if (what < 7 && coordinator_.alive()) {
      coordinator_.die_after(static_cast<int>(world_.rng().below(40)));
    } else if (what < 9) {
      // A server that was given up comes back as if it had died.
      const Milliseconds time = world_.between(100, 6000);
      if (is_server(process) && time.count() > 1000) lose_server();
      process.stand_still(time);
    } else if (!scenario_.full_disks) {
      cut();
    } else if (!folder_.full) {
      world_.trace("the disk is full");
      folder_.full = true;
      watch_.may_lose();
      world_.after(world_.between(100, 5000), [this] {
        world_.trace("the disk has room again");
        folder_.full = false;
      });
    }
  }

  // Both live, and cannot reach each other any more.
  void cut() {
    ServerProcess& one = *cluster_.servers[world_.rng().below(cluster_.servers.size())];
    ServerProcess& other = *cluster_.servers[world_.rng().below(cluster_.servers.size())];
    if (&one == &other || !one.alive() || !other.in_exchange(one.attempt())) return;
    world_.trace("{} and {} are cut off from each other", one.name(), other.name());
    const std::string attempt = one.attempt();
    one.after(network_.delay(world_), [&one, attempt] { one.lose_peer(attempt); });
    other.after(network_.delay(world_), [&other, attempt] { other.lose_peer(attempt); });
  }

  bool is_server(const Process& process) const {
    return std::any_of(cluster_.servers.begin(), cluster_.servers.end(),
                       [&](const Process* one) { return one == &process; });
  }

  // The next one may hold the only other copy.
  void lose_server() {
    ++servers_lost_;
    if (servers_lost_ > 1) watch_.may_lose();
  }

  void kill(Process& process) {
    if (process.alive() && is_server(process)) lose_server();
    killed_at_start_ = killed_at_start_ || !coordinator_.ever_trained();
    process.kill();
  }

  // A person starts it again, after a while.
  void kill_launcher() {
    watch_.may_lose();  // all that was in memory dies with it
    launcher_->kill();
    world_.after(world_.between(50, 3000), [this] {
      if (!launcher_->alive() && !launcher_->outcome()) launcher_->start();
    });
  }

  // Now and then somebody starts a lost worker by hand.
  void look_after() {
    for (Process* worker : cluster_.workers) {
      if (!worker->alive() && launcher_->alive() && !coordinator_.outcome() && coordinator_.alive() &&
          world_.chance(0.02))
        worker->start();
    }
    world_.after(Milliseconds(100), [this] { look_after(); });
  }

  bool over() const {
    return launcher_->outcome() &&
           std::none_of(processes_.begin(), processes_.end(),
                        [](const auto& process) { return process->alive() && !process->ended(); });
  }

  void judge() {
    if (!launcher_->outcome())
      return world_.broken("the run does not end, though nothing goes wrong any more");
    for (const auto& process : processes_) {
      if (process->alive()) return world_.broken(process->name() + " does not end, though the run is over");
    }
    const absl::Status& end = *launcher_->outcome();
    if (coordinator_.outcome() && !coordinator_.outcome()->ok() && end.ok())
      world_.broken(fmt::format("the run failed ({}), and the launcher says that all is well",
                                std::string(coordinator_.outcome()->message())));
    if (!end.ok()) {
      // A disk that is full may be the end; what had not begun to train is not tried again; and one that is
      // asked to stop does so, if a server is lost then.
      const bool may_fail = scenario_.full_disks || !coordinator_.ever_trained() || coordinator_.stopped() ||
                            stop_asked_ || killed_at_start_;
      if (!may_fail) world_.broken(fmt::format("the run failed: {}", std::string(end.message())));
      return;
    }
    const SavedCheckpoint* newest = folder_.newest();
    if (newest == nullptr && !coordinator_.stopped())
      return world_.broken("the run is done, and there is no checkpoint");
    if (newest == nullptr) return;
    const std::int64_t committed = newest->state.ledger.committed();
    if (committed != kSamples && !coordinator_.stopped())
      world_.broken(
          fmt::format("the run is done, and its last checkpoint has {} of {} samples", committed, kSamples));
  }

  World world_;
  const Network network_;
  const Scenario scenario_;
  RunFolder folder_;
  Watch watch_;
  CoordinatorProcess coordinator_;
  Cluster cluster_;
  std::vector<std::unique_ptr<Process>> processes_;  // but the coordinator
  std::optional<Launcher> launcher_;
  int servers_lost_ = 0;
  bool stop_asked_ = false;
  bool killed_at_start_ = false;  // some process, before anything was trained: a new run may end with that
};

}  // namespace

Outcome run(std::uint64_t seed, bool tracing, Break broken) {
  return Simulation(seed, tracing, broken).run();
}

}  // namespace paceline::cluster_sim
