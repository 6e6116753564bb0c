#include "paceline/cluster_sim/launcher.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::cluster_sim {

namespace {

constexpr Milliseconds kLook{100};

}  // namespace

Launcher::Launcher(World& world, const Network& network, const Scenario& scenario, RunFolder& folder,
                   CoordinatorProcess& coordinator,
                   std::vector<std::pair<Process*, supervisor::MemberKind>> members)
    : world_(world),
      network_(network),
      scenario_(scenario),
      folder_(folder),
      coordinator_(coordinator),
      members_(std::move(members)) {
  for (const auto& [process, kind] : members_) {
    process->on_end([this, name = process->name()](const supervisor::ProcessEnd& end) {
      if (alive()) ends_.emplace_back(name, end);
    });
  }
  coordinator_.on_end([this](const supervisor::ProcessEnd& end) {
    if (alive()) coordinator_end_ = end;
  });
}

supervisor::SupervisorOptions Launcher::options() const {
  supervisor::SupervisorOptions options;
  for (const auto& [process, kind] : members_) {
    if (kind != supervisor::MemberKind::kEvaluator) options.members.emplace_back(process->name(), kind);
    if (kind == supervisor::MemberKind::kWorker) options.replicas.push_back({process->name()});
  }
  options.evaluates = true;
  options.resumes = options.again = begun_before_;
  options.copies = scenario_.job.copies > 1;
  return options;
}

void Launcher::start() {
  world_.trace("the launcher starts");
  supervisor_.emplace(options(), world_.now());
  begun_before_ = begun_before_ || !folder_.attempts.empty();
  ++life_;
  happens(supervisor::Begun{});
  look();
}

void Launcher::kill() {
  if (!alive()) return;
  world_.trace("the launcher is killed");
  supervisor_.reset();
  ends_.clear();
  coordinator_end_.reset();
  begun_before_ = true;
  coordinator_.kill();
  for (const auto& [process, kind] : members_) process->kill();
}

// As watch() and LocalCluster::tend() do.
void Launcher::look() {
  const auto ask = [this] {
    if (const auto answer = coordinator_.status()) {
      happens(*answer);
    } else {
      happens(supervisor::NotAnswered{true});
    }
  };
  while (!ends_.empty()) {
    const auto [name, end] = ends_.front();
    ends_.pop_front();
    if (!supervisor_->training()) ask();
    happens(supervisor::MemberEnded{name, end, newest()});
  }
  if (const auto end = std::exchange(coordinator_end_, std::nullopt))
    happens(supervisor::CoordinatorEnded{*end, newest(), coordinator_.ever_trained()});
  happens(supervisor::TimePassed{});
  if (supervisor_->outcome()) {
    outcome_ = *supervisor_->outcome();
    world_.trace("the launcher ends: {}", outcome_->ok() ? "OK" : std::string(outcome_->message()));
    supervisor_.reset();
    // What is left dies with it. After a good end that would hide a process that does not end.
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
  for (const supervisor::Action& action : supervisor_->take({world_.now(), std::move(what)})) {
    if (auto answer = carry_out(action)) happens(*std::move(answer));
  }
}

Process& Launcher::process(const std::string& name) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const auto& one) { return one.first->name() == name; });
  PACELINE_CHECK(found != members_.end(), "there is no process {}", name);
  return *found->first;
}

std::optional<Version> Launcher::newest() const {
  const SavedCheckpoint* found = folder_.newest();
  return found == nullptr ? std::nullopt : std::optional(found->state.version);
}

std::optional<Launcher::What> Launcher::carry_out(const supervisor::Action& action) {
  if (const auto* start = std::get_if<supervisor::StartMember>(&action)) {
    Process& one = process(start->name);
    // Somebody may have started one by hand in its place.
    if (!one.alive()) one.start();
    return supervisor::MemberStarted{start->name, absl::OkStatus()};
  }
  if (const auto* kill = std::get_if<supervisor::KillMember>(&action)) {
    process(kill->name).put_away();
  } else if (std::holds_alternative<supervisor::StartCoordinator>(action)) {
    if (coordinator_.alive()) world_.broken("there are two coordinators");
    coordinator_.start();
    return supervisor::CoordinatorStarted{absl::OkStatus(), false};
  } else if (std::holds_alternative<supervisor::KillCoordinator>(action)) {
    coordinator_.kill();
  } else if (const auto* ask = std::get_if<supervisor::AskStop>(&action)) {
    world_.after(network_.delay(world_), [this, why = ask->why] {
      if (coordinator_.alive()) coordinator_.happening([this, why] { coordinator_.stop(why); })();
    });
  } else if (const auto* tell = std::get_if<supervisor::Tell>(&action)) {
    world_.trace("the launcher says: {}", tell->line);
  }
  return std::nullopt;
}

}  // namespace paceline::cluster_sim
