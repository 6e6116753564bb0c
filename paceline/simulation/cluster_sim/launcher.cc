#include "paceline/simulation/cluster_sim/launcher.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::cluster_sim {

namespace {

constexpr Milliseconds kLook{100};

}  // namespace

Launcher::Launcher(Cluster& cluster, CoordinatorProcess& coordinator, Members members, bool of_one_host)
    : cluster_(cluster),
      world_(cluster.world),
      folder_(cluster.disks.of(coordinator.host())),
      coordinator_(coordinator),
      members_(std::move(members)),
      of_one_host_(of_one_host) {
  for (const auto& [process, kind] : members_) {
    process->on_end([this, name = process->name()](const supervisor::ProcessEnd& end) {
      if (alive() && cluster_.broken != Break::kWaitForNobody) ends_.emplace_back(name, end);
    });
  }
  coordinator_.on_end([this](const supervisor::ProcessEnd& end) {
    if (alive()) coordinator_end_ = end;
  });
}

// The same options as cli/node_command.cc and launch/local_cluster.cc make.
supervisor::SupervisorOptions Launcher::options() const {
  supervisor::SupervisorOptions options;
  for (const auto& [process, kind] : members_) {
    if (kind != supervisor::MemberKind::kEvaluator) options.members.emplace_back(process->name(), kind);
    if (kind == supervisor::MemberKind::kWorker && !of_one_host_)
      options.replicas.push_back({process->name()});
  }
  const bool unfinished = folder_.mark.has_value() && folder_.leader;
  options.evaluates = true;
  options.copies = cluster_.scenario.job.copies > 1;
  options.host = HostRank(host());
  options.patience_s = cluster_.scenario.job.host_patience_s;
  options.leads = host() == 0;
  if (of_one_host_ && unfinished) {
    options.run = "run";
    options.leads = leader_by_folder() == host() && (host() == 0 || !folder_.lock);
  }
  options.resumes = options.again = options.leads && unfinished;
  return options;
}

void Launcher::start() {
  world_.trace("the launcher of host {} starts", host());
  supervisor::SupervisorOptions starting = options();
  int& follows = cluster_.follows.at(host());
  follows = starting.leads ? host() : 0;
  if (!starting.leads && !starting.run.empty()) {
    if (leader_by_folder() != host()) follows = leader_by_folder();
  } else if (!starting.leads && cluster_.disks.own()) {
    // A launcher's own folder does not say who leads, so the person who starts it says so: --coordinator.
    follows = cluster_.last_leader;
  }
  if (!starting.leads) starting.leader = std::to_string(follows);
  next_leader_.reset();
  outcome_.reset();
  for (ServerProcess* server : cluster_.servers) {
    if (server->host() == host()) server->shards().lose_memory();
  }
  supervisor_.emplace(starting, coordinator_.now());
  ++life_;
  happens(supervisor::Begun{});
  look();
}

void Launcher::kill() {
  if (!alive()) return;
  world_.trace("the launcher of host {} is killed", host());
  supervisor_.reset();
  ends_.clear();
  coordinator_end_.reset();
  coordinator_.kill();
  for (const auto& [process, kind] : members_) process->kill();
}

void Launcher::ask() {
  const CoordinatorProcess& asked = led_by();
  if (const auto answer = asked.status(coordinator_.place())) {
    hear_of_keeper(asked);
    happens(*answer);
    if (!answer->trains) look_whether_led_elsewhere();
  } else {
    happens(supervisor::NotAnswered{asked.reached_from(coordinator_.place()) || !asked.alive()});
  }
}

// The same steps as watch() and LocalCluster::tend().
void Launcher::look() {
  while (!ends_.empty()) {
    const auto [name, end] = ends_.front();
    ends_.pop_front();
    if (!supervisor_->training()) ask();
    happens(supervisor::MemberEnded{name, end, folder_.newest_version()});
  }
  const auto end = std::exchange(coordinator_end_, std::nullopt);
  if (end && supervisor_->leads())
    happens(supervisor::CoordinatorEnded{*end, folder_.newest_version(), coordinator_.ever_trained()});
  happens(supervisor::TimePassed{});
  if (supervisor_->outcome()) {
    outcome_ = cluster_.broken == Break::kSayDone ? absl::OkStatus() : *supervisor_->outcome();
    // The run has ended, or goes on without this host.
    if (cluster_.disks.own() && supervisor_->heard_of_end()) folder_.mark.reset();
    world_.trace("the launcher of host {} ends: {}", host(),
                 outcome_->ok() ? "OK" : std::string(outcome_->message()));
    supervisor_.reset();
    // All that this launcher started dies with it. After a good end that would hide a process that does not
    // end.
    if (outcome_->ok()) return;
    coordinator_.put_away();
    for (const auto& [process, kind] : members_) process->put_away();
    return;
  }
  ask();
  world_.after(kLook, [this, life = life_] {
    if (alive() && life == life_) look();
  });
}

void Launcher::happens(What what) {
  if (!alive()) return;
  for (const supervisor::Action& action : supervisor_->take({coordinator_.now(), std::move(what)})) {
    if (auto answer = std::visit([this](const auto& one) { return on(one); }, action))
      happens(*std::move(answer));
  }
}

Process& Launcher::process(const std::string& name) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const auto& one) { return one.first->name() == name; });
  PACELINE_CHECK(found != members_.end(), "there is no process {}", name);
  return *found->first;
}

std::optional<Launcher::What> Launcher::on(const supervisor::StartMember& start) {
  Process& one = process(start.name);
  // Somebody may have started one by hand in its place.
  if (!one.alive()) one.start();
  return supervisor::MemberStarted{start.name, absl::OkStatus()};
}

std::optional<Launcher::What> Launcher::on(const supervisor::KillMember& kill) {
  process(kill.name).put_away();
  return std::nullopt;
}

std::optional<Launcher::What> Launcher::on(const supervisor::StartCoordinator& start) {
  const absl::Status led = coordinator_.lead(start);
  if (!led.ok()) coordinator_end_.reset();
  return supervisor::CoordinatorStarted{led, false};
}

std::optional<Launcher::What> Launcher::on(const supervisor::KillCoordinator&) {
  coordinator_.kill();
  return std::nullopt;
}

std::optional<Launcher::What> Launcher::on(const supervisor::FollowLeader& leader) {
  cluster_.follows.at(host()) = leader.address ? std::stoi(*leader.address) : host();
  world_.trace("host {} follows host {}", host(), cluster_.follows.at(host()));
  return std::nullopt;
}

std::optional<Launcher::What> Launcher::on(const supervisor::EndWaiting&) {
  for (const auto& [process, kind] : members_) process->expect_nobody();
  return std::nullopt;
}

std::optional<Launcher::What> Launcher::on(const supervisor::AskStop& ask) {
  stopped_ = true;
  CoordinatorProcess& asked = led_by();
  world_.at(cluster_.network.arrival(coordinator_.place(), asked.place()), [&asked, ask] {
    if (asked.alive()) asked.happening([&asked, ask] { asked.stop(ask.why, ask.cannot_start, ask.cause); })();
  });
  return std::nullopt;
}

std::optional<Launcher::What> Launcher::on(const supervisor::GiveWay& way) {
  coordinator_.happening([this, way] { coordinator_.give_way({way.to.host, way.to.address}); })();
  return std::nullopt;
}

std::optional<Launcher::What> Launcher::on(const supervisor::LookAtFolder&) {
  if (cluster_.disks.own()) return supervisor::FolderSeen{look_around()};
  supervisor::LeaderFailover::Seen seen;
  if (folder_.leader) seen.leader = {HostRank(*folder_.leader), std::to_string(*folder_.leader)};
  seen.led = folder_.lock.has_value() && cluster_.broken != Break::kTwoLeaders;
  seen.over = !folder_.mark;
  return supervisor::FolderSeen{seen};
}

// ---- Hosts that share no disk: the same as in launch/local_cluster.cc and cli/node_command.cc ----

bool Launcher::answers(int leader) const {
  return cluster_.coordinators.at(static_cast<std::size_t>(leader))->status(coordinator_.place()).has_value();
}

// The leader that this host's folder names. If hosts share no disk, the next leader, if it leads by now.
int Launcher::leader_by_folder() const {
  const auto next = folder_.next_leader;
  return next && *next != host() && answers(*next) ? *next : *folder_.leader;
}

void Launcher::look_whether_led_elsewhere() {
  if (!alive() || !cluster_.disks.own() || !supervisor_->leads()) return;
  if (const auto before = supervisor_->may_give_way_to()) {
    if (answers(std::stoi(*before))) happens(supervisor::LeaderIsBack{});
    return;
  }
  if (!folder_.next_leader) return;
  const int next = *folder_.next_leader;
  const auto other = cluster_.coordinators.at(static_cast<std::size_t>(next))->status(coordinator_.place());
  if (next != host() && other && other->trains)
    happens(supervisor::LedElsewhere{{HostRank(next), std::to_string(next)}});
}

void Launcher::hear_of_keeper(const CoordinatorProcess& leader) {
  if (!cluster_.disks.own() || supervisor_->leads()) return;
  if (leader.next_leader()) next_leader_ = leader.next_leader();
  // If another host keeps the run, this host's copy is worth nothing.
  if (leader.keeper() && *leader.keeper() != host()) folder_.mark.reset();
}

supervisor::LeaderFailover::Seen Launcher::look_around() const {
  if (next_leader_ && *next_leader_ != host() && answers(*next_leader_))
    return {{{HostRank(*next_leader_), std::to_string(*next_leader_)}}, true, false};
  if (!folder_.mark || !folder_.leader) return {};
  return {{{HostRank(*folder_.leader), std::to_string(*folder_.leader)}}, false, false};
}

std::optional<Launcher::What> Launcher::on(const supervisor::Tell& tell) {
  world_.trace("the launcher of host {} says: {}", host(), tell.line);
  return std::nullopt;
}

std::string ended_in_words(const std::vector<std::unique_ptr<Launcher>>& launchers) {
  std::string words;
  for (const auto& launcher : launchers) {
    const auto& end = launcher->outcome();
    words += fmt::format("{}host {}: {}", words.empty() ? "" : "; ", launcher->host(),
                         !end        ? "it did not end"
                         : end->ok() ? "done"
                                     : std::string(end->message()));
  }
  return words;
}

}  // namespace paceline::cluster_sim
