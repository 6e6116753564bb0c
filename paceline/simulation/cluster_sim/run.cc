#include "paceline/simulation/cluster_sim/run.h"
#include "paceline/base/exit_reason.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "paceline/simulation/cluster_sim/judge.h"
#include "paceline/simulation/cluster_sim/launcher.h"
#include "paceline/simulation/cluster_sim/worker_process.h"

namespace paceline::cluster_sim {

namespace {

constexpr std::chrono::seconds kFaultsEnd{15};
// A coordinator waits 600 s for hosts of a new run, and people may start such a run as the last thing that they do.
constexpr std::chrono::seconds kLongest{1300};
// How long processes may live on after an undisturbed run.
constexpr std::chrono::seconds kGoodbye{3};

// Everything of one run, and the people around it, who start launchers again and now and then a worker by
// hand.
class Simulation {
 public:
  Simulation(std::uint64_t seed, bool tracing, Break broken)
      : world_(seed, tracing),
        network_(world_),
        scenario_(scenario_of(world_)),
        disks_(scenario_.own_disks, static_cast<int>(scenario_.job.hosts)),
        watch_(world_, scenario_),
        cluster_{world_, network_, scenario_, disks_, watch_, broken, {}, {}, 0, {}, {}, {}},
        clocks_(static_cast<std::size_t>(hosts())) {
    for (int rank = 0; rank < scenario_.job.servers; ++rank)
      cluster_.servers.push_back(add(std::make_unique<ServerProcess>(cluster_, rank, home(rank))));
    for (const auto& device : scenario_.job.devices)
      cluster_.workers.push_back(
          add(std::make_unique<WorkerProcess>(cluster_, device.name, home(device.host.value_or(0)),
                                              device.host.value_or(0), world_.between(5, 60).count())));
    for (int host = 0; host < hosts(); ++host) add_launcher(host);
  }

  Outcome run() {
    world_.trace("{}", scenario_.job_toml);
    const SteadyTime start = world_.now();
    for (const auto& launcher : launchers_) launcher->start();
    for (int i = 0; i < scenario_.faults; ++i) world_.after(fault_time(), [this] { fault(); });
    if (scenario_.stopped) world_.after(world_.between(50, 4000), [this] { stop(); });
    world_.after(Milliseconds(100), [this] { look_after(); });
    while (world_.complaint().empty() && !over() && world_.step(start + kLongest)) {
    }
    Outcome outcome;
    if (world_.complaint().empty()) look_at_end();
    outcome.broken = world_.complaint();
    outcome.ended = ended_in_words(launchers_);
    outcome.attempts = static_cast<int>(folder().attempts.size());
    outcome.faults = scenario_.faults;
    outcome.made_early = watch_.made_early();
    outcome.seconds = std::chrono::duration<double>(world_.now() - start).count();
    outcome.trace = world_.lines();
    for (const CoordinatorProcess* one : cluster_.coordinators) {
      for (const auto& [way, count] : one->transitions()) outcome.transitions[way] += count;
    }
    return outcome;
  }

 private:
  int hosts() const { return scenario_.hosts_apart ? static_cast<int>(scenario_.job.hosts) : 1; }

  // If hosts are apart, all processes of a host are in one place. Else each process is in a place of its own,
  // so that the way between any two can be cut.
  Home home(int host) {
    if (!scenario_.hosts_apart) return {0, places_++, &clocks_[0]};
    const double patience_s = supervisor::longest_s(HostRank(host), scenario_.job.host_patience_s);
    return {host, host, &clocks_[static_cast<std::size_t>(host)], std::chrono::duration<double>(patience_s)};
  }

  template <class One>
  One* add(std::unique_ptr<One> process) {
    One* raw = process.get();
    processes_.push_back(std::move(process));
    return raw;
  }

  void add_launcher(int host) {
    Process* const evaluator = add(std::make_unique<EvaluatorProcess>(cluster_, home(host)));
    CoordinatorProcess* const coordinator = add(std::make_unique<CoordinatorProcess>(
        world_, network_, scenario_, disks_, watch_, cluster_.broken, home(host)));
    coordinator->on_leading([this, host] { cluster_.last_leader = host; });
    coordinator->on_finish([this] { ended_at_ = world_.now(); });
    coordinator->on_keeping([this, host](int keeper) { return keeps(keeper, host); });
    coordinator->on_saved_copies([this] { strike(SecondLoss::kSavedCopies, 1500); });
    coordinator->on_training([this, coordinator] {
      begins_to_train(*coordinator);
      strike(SecondLoss::kTrainsAgain, 40);
    });
    Launcher::Members members;
    const auto take = [&](Process* one, supervisor::MemberKind kind) {
      if (one->host() == host) members.emplace_back(one, kind);
    };
    for (Process* server : cluster_.servers) take(server, supervisor::MemberKind::kServer);
    for (Process* worker : cluster_.workers) take(worker, supervisor::MemberKind::kWorker);
    take(evaluator, supervisor::MemberKind::kEvaluator);
    cluster_.coordinators.push_back(coordinator);
    cluster_.follows[host] = 0;
    launchers_.push_back(
        std::make_unique<Launcher>(cluster_, *coordinator, std::move(members), scenario_.hosts_apart));
  }

  Launcher& launcher_of(const Process& process) {
    return *launchers_[static_cast<std::size_t>(process.host())];
  }
  // The coordinator that has the run, or had it last. If hosts share no disk, it is the one that trained
  // last: a part of the hosts may be led in vain.
  CoordinatorProcess& coordinator() { return *cluster_.coordinators[static_cast<std::size_t>(leader())]; }
  int leader() { return disks_.own() ? trains_on_ : disks_.of(0).leader.value_or(0); }
  // The run's folder on its last leader's disk.
  RunFolder& folder() { return disks_.of(leader()); }
  // The last leader ended the run.
  bool run_is_over() { return !folder().mark && coordinator().outcome(); }
  // Whether a host keeps a copy of the run for its leader.
  bool keeps(int keeper, int leader) {
    const Launcher& launcher = *launchers_[static_cast<std::size_t>(keeper)];
    return launcher.alive() && !cluster_.coordinators[static_cast<std::size_t>(keeper)]->alive() &&
           cluster_.follows.at(keeper) == leader && !network_.is_cut(keeper, leader);
  }

  // A host that does not know it looks in vain for the next leader if this one dies.
  bool all_know_next_leader() {
    return std::all_of(launchers_.begin(), launchers_.end(), [this](const auto& one) {
      const bool leads = one->host() == leader() || one->host() == folder().next_leader;
      return leads || !one->alive() || one->next_leader() == folder().next_leader;
    });
  }

  // ---- Faults ----

  Milliseconds fault_time() {
    return world_.chance(0.8)
               ? world_.between(0, 3000)
               : world_.between(3000, std::chrono::duration<double, std::milli>(kFaultsEnd).count());
  }

  Process& victim() {
    const std::uint64_t which = world_.rng().below(4);
    if (which == 0) return coordinator();
    if (which == 1) return *cluster_.workers[world_.rng().below(cluster_.workers.size())];
    if (which == 2) return *cluster_.servers[world_.rng().below(cluster_.servers.size())];
    return *processes_[world_.rng().below(processes_.size())];
  }

  void fault() {
    if (run_is_over()) return;
    if (world_.chance(scenario_.hosts_apart ? 0.25 : 0.05))
      return kill_launcher(*launchers_[world_.rng().below(launchers_.size())]);
    if (scenario_.own_disks && world_.chance(0.45)) return lose_leader_twice();
    Process& process = victim();
    const std::uint64_t what = world_.rng().below(14);
    if (what < 5) {
      kill(process);
      if (server_of(process) != nullptr && world_.chance(0.5)) kill_worker_too();
    } else if (what < 7 && coordinator().alive()) {
      coordinator().die_after(static_cast<int>(world_.rng().below(40)), [this] { note_killed(); });
    } else if (what < 9) {
      stand_still(process, world_.between(100, 6000));
    } else if (what < 11) {
      cut_off(process, world_.chance(0.4) ? world_.between(2000, 9000) : world_.between(20, 4000));
    } else if (what == 11) {
      leap(process.host(), world_.between(50, 8000));
    } else if (!scenario_.full_disks) {
      what == 12 ? cut_servers() : lose_power();
    } else if (!full_) {
      fill_disk();
    }
  }

  // When the leader's host is lost after a first loss.
  enum class SecondLoss {
    kSoon,
    kSavedCopies,  // soon after the checkpoint that the first loss caused: maybe before another disk has it
    kTrainsAgain,  // when the run trains again: maybe before the next keeper has a checkpoint
  };
  void lose_leader_twice() {
    const auto when =
        world_.chance(0.5) ? SecondLoss::kTrainsAgain : static_cast<SecondLoss>(world_.rng().below(2));
    const auto keeper = coordinator().keeper();
    if (when == SecondLoss::kTrainsAgain && keeper) {
      kill_launcher(*launchers_[static_cast<std::size_t>(*keeper)]);
    } else {
      kill(coordinator());
    }
    next_loss_ = when;
    strike(SecondLoss::kSoon, 2000);
  }
  // If the leader's host is to be lost now, it is lost within `most_ms`.
  void strike(SecondLoss now, double most_ms) {
    if (next_loss_ != now) return;
    next_loss_.reset();
    world_.after(world_.between(now == SecondLoss::kSoon ? 100 : 0, most_ms), [this] {
      if (!run_is_over()) kill_launcher(*launchers_[static_cast<std::size_t>(leader())]);
    });
  }

  // A gradient that the next server needs may have been in this worker's memory.
  void kill_worker_too() {
    world_.after(world_.between(0, 150), [this] {
      if (!run_is_over()) kill(*cluster_.workers[world_.rng().below(cluster_.workers.size())]);
    });
  }

  void note_killed() { killed_at_start_ = killed_at_start_ || !ever_trained(); }

  void kill(Process& process) {
    ServerProcess* const server = server_of(process);
    if (server != nullptr && coordinator().job().copies == 1 && world_.chance(0.4)) {
      server->die_in_update(static_cast<int>(world_.rng().below(10)), [this, server] {
        lose_if_server(*server);
        note_killed();
      });
      return;
    }
    if (process.alive()) lose_if_server(process);
    note_killed();
    process.kill();
  }

  // A server that was given up counts as lost.
  void stand_still(Process& process, Milliseconds time) {
    if (time.count() > 1000) lose_if_server(process);
    process.stand_still(time);
  }

  // Cuts a process off from the coordinator for `time`; if hosts are apart, its host from all others.
  void cut_off(Process& process, Milliseconds time) {
    world_.trace("{} (host {}) is cut off for {:.0f} ms", process.name(), process.host(), time.count());
    if (!scenario_.hosts_apart) {
      if (process.place() == coordinator().place()) return;  // a process cannot be cut off from its own place
      if (time.count() > 300) lose_if_server(process);
      return network_.cut(process.place(), coordinator().place(), time);
    }
    if (time.count() > 300) lose_server();
    // The other hosts may all be given up then.
    if (process.host() == coordinator().host()) watch_.may_lose();
    for (int host = 0; host < hosts(); ++host) {
      if (host != process.host()) network_.cut(process.host(), host, time);
    }
  }

  void leap(int host, Milliseconds time) {
    world_.trace("the clock of host {} leaps {:.0f} ms ahead", host, time.count());
    watch_.may_lose();  // a process that would come in time may be given up
    clocks_[static_cast<std::size_t>(host)].ahead += std::chrono::duration_cast<SteadyTime::duration>(time);
  }

  // Cuts the way between two servers. Both live, and notice it.
  void cut_servers() {
    ServerProcess& one = *cluster_.servers[world_.rng().below(cluster_.servers.size())];
    ServerProcess& other = *cluster_.servers[world_.rng().below(cluster_.servers.size())];
    if (&one == &other || !one.alive() || !other.shards().in_exchange(one.shards().attempt())) return;
    world_.trace("{} and {} are cut off from each other", one.name(), other.name());
    const std::string attempt = one.shards().attempt();
    cluster_.later(other, one, [&one, attempt] { one.shards().lose_peer(attempt); });
    cluster_.later(one, other, [&other, attempt] { other.shards().lose_peer(attempt); });
  }

  void fill_disk() {
    world_.trace("the disk is full");
    set_full(true);
    watch_.may_lose();
    world_.after(world_.between(100, 5000), [this] {
      world_.trace("the disk has room again");
      set_full(false);
    });
  }
  void set_full(bool full) {
    full_ = full;
    for (RunFolder& one : disks_.all()) one.full = full;
  }

  // All hosts and their disks lose power. Data that was only in memory is gone.
  void lose_power() {
    world_.trace("the power is lost");
    for (const auto& launcher : launchers_) kill_launcher(*launcher);
    for (RunFolder& one : disks_.all()) one.lose_power();
    watch_.may_lose();
  }

  // Kills a launcher and all that it started. In most cases somebody starts it again after a while.
  void kill_launcher(Launcher& launcher) {
    if (!launcher.alive()) return;
    if (!scenario_.hosts_apart) watch_.may_lose();  // all that was only in memory dies with it
    if (launcher.host() == leader() && !all_know_next_leader()) watch_.may_lose();
    for (ServerProcess* server : cluster_.servers) {
      if (server->host() == launcher.host() && server->alive()) lose_server();
    }
    note_killed();
    launcher.kill();
    const bool any_left =
        std::any_of(launchers_.begin(), launchers_.end(), [](const auto& one) { return one->alive(); });
    // A run that has not begun waits for all of its hosts, so somebody has to start this one again.
    if (any_left && ever_trained() && world_.chance(0.4)) return;
    ++to_start_;
    const double longest = scenario_.hosts_apart && world_.chance(0.5) ? 12000 : 3000;
    world_.after(world_.between(50, longest), [this, &launcher] {
      --to_start_;
      if (!launcher.alive() && !launcher.outcome() && !run_is_over()) launcher.start();
    });
  }

  // Null if the process is no server.
  ServerProcess* server_of(const Process& process) const {
    const auto& all = cluster_.servers;
    const auto found = std::find(all.begin(), all.end(), &process);
    return found == all.end() ? nullptr : *found;
  }

  void lose_if_server(const Process& process) {
    if (server_of(process) != nullptr) lose_server();
  }

  // The next server may hold the only other copy.
  void lose_server() {
    ++servers_lost_;
    if (servers_lost_ > 1 || coordinator().job().copies == 1) watch_.may_lose();
  }

  // All copies exist again once a run trains, so earlier losses no longer count.
  void begins_to_train(const CoordinatorProcess& coordinator) {
    trains_on_ = coordinator.host();
    servers_lost_ = static_cast<int>(coordinator.job().servers);
    for (const ServerProcess* server : cluster_.servers) {
      if (server->serves(coordinator.attempt())) --servers_lost_;
    }
    const bool once = coordinator.job().copies == 1;
    if (full_ || servers_lost_ > 1 || once) watch_.may_lose();
  }

  // ---- People ----

  void stop() {
    Launcher& launcher = *launchers_[world_.rng().below(launchers_.size())];
    if (!launcher.alive()) return;
    world_.trace("somebody stops the run");
    stop_asked_ = true;
    // A stop may lose this host if nobody leads, and the coordinator's host if the coordinator dies now.
    watch_.may_lose();
    launcher.stop("interrupted");
  }

  // Now and then somebody starts a lost worker by hand. If the run is over, nobody does: the worker would find no coordinator.
  void look_after() {
    for (Process* worker : cluster_.workers) {
      if (!worker->alive() && launcher_of(*worker).alive() && !run_is_over() && coordinator().alive() &&
          !coordinator().disconnects() && world_.chance(0.02))
        worker->start();
    }
    world_.after(Milliseconds(100), [this] { look_after(); });
  }

  // ---- The end ----

  bool ever_trained() const {
    return std::any_of(cluster_.coordinators.begin(), cluster_.coordinators.end(),
                       [](const CoordinatorProcess* one) { return one->ever_trained(); });
  }
  bool ever_stopped() const {
    return std::any_of(cluster_.coordinators.begin(), cluster_.coordinators.end(),
                       [](const CoordinatorProcess* one) { return one->stopped(); });
  }

  bool over() const {
    return to_start_ == 0 &&
           std::none_of(launchers_.begin(), launchers_.end(), [](const auto& one) { return one->alive(); }) &&
           std::none_of(processes_.begin(), processes_.end(),
                        [](const auto& process) { return process->alive() && !process->ended(); });
  }

  // True if a host is left that has the run and did not leave the lead.
  bool somebody_can_lead() {
    for (const auto& launcher : launchers_) {
      const bool has_run = disks_.of(launcher->host()).mark && launcher->outcome();
      const auto& led = cluster_.coordinators[static_cast<std::size_t>(launcher->host())]->outcome();
      const bool left = led && exit_reason_of(*led) == ExitReason::kLeavesLead;
      if (has_run && !left) return true;
    }
    return false;
  }

  void look_at_end() {
    for (const auto& launcher : launchers_) {
      if (launcher->alive()) return world_.broken("the run does not end, though nothing goes wrong any more");
    }
    for (const auto& process : processes_) {
      if (process->alive()) return world_.broken(process->name() + " does not end, though the run is over");
    }
    if (scenario_.faults == 0 && !scenario_.stopped && world_.now() > ended_at_ + kGoodbye)
      return world_.broken("processes wait for a run that is over");
    RunEnd end;
    end.samples = scenario_.samples;
    end.run = coordinator().outcome();
    end.led_by = leader();
    for (const CoordinatorProcess* one : cluster_.coordinators) {
      const auto& out = one->left_out();
      if (one == &coordinator() || disks_.own())
        end.given_up.insert(end.given_up.end(), out.begin(), out.end());
    }
    for (const auto& launcher : launchers_) end.launchers.push_back(launcher->outcome());
    end.ever_trained = ever_trained();
    end.stopped =
        ever_stopped() || stop_asked_ ||
        std::any_of(launchers_.begin(), launchers_.end(), [](const auto& one) { return one->stopped(); });
    end.full_disks = scenario_.full_disks;
    end.killed_at_start = killed_at_start_;
    end.needs_more_hosts = coordinator().needs_more_hosts();
    end.nobody_can_lead = disks_.own() && !somebody_can_lead();
    if (const SavedCheckpoint* newest = folder().newest()) end.committed = newest->state.ledger.committed();
    if (const auto complaint = complaint_about(end)) world_.broken(*complaint);
  }

  World world_;
  Network network_;
  const Scenario scenario_;
  Disks disks_;
  Watch watch_;
  Cluster cluster_;
  std::vector<Clock> clocks_;  // indexed by host
  int places_ = 0;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Launcher>> launchers_;  // indexed by host
  int to_start_ = 0;                                  // launchers that somebody will start again
  int servers_lost_ = 0;                              // servers lost since the run began to train last
  std::optional<SecondLoss> next_loss_;
  SteadyTime ended_at_{};  // when a coordinator ended the run
  bool stop_asked_ = false;
  bool full_ = false;  // whether the disks are full
  int trains_on_ = 0;  // the host whose coordinator began to train last
  // a process was killed before anything was trained: a new run may end with that
  bool killed_at_start_ = false;
};

}  // namespace

Outcome run(std::uint64_t seed, bool tracing, Break broken) {
  return Simulation(seed, tracing, broken).run();
}

}  // namespace paceline::cluster_sim
