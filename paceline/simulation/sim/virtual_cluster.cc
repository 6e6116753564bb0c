#include "paceline/simulation/sim/virtual_cluster.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/overloaded.h"
#include "paceline/base/rng.h"
#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/timeline.h"
#include "paceline/formats/config/parallel.h"

namespace paceline::sim {

namespace {

constexpr std::uint64_t kFailureSeed = 0x6661696c;  // sets failures apart from iteration times

std::vector<bool> empty_at_first(const ClusterModel& model) {
  std::vector<bool> empty(model.places.size(), false);
  std::vector<bool> seen(model.places.size(), false);
  for (const Change& change : model.changes) {
    const auto place = static_cast<std::size_t>(change.place);
    if (!seen[place]) empty[place] = change.what == Happening::kJoin;
    seen[place] = true;
  }
  return empty;
}

control::ControllerConfig starting_with(control::ControllerConfig config, const ClusterModel& model) {
  const std::vector<bool> empty = empty_at_first(model);
  config.uneven_data = model.uneven_data;
  config.start_replicas = std::max<std::int64_t>(1, std::count(empty.begin(), empty.end(), false));
  return config;
}

Duration exponential(double mean_s, Rng& rng) {
  return bounded_seconds(-mean_s * std::log(1.0 - rng.uniform()));
}

}  // namespace

VirtualCluster::VirtualCluster(ClusterModel model, control::ControllerConfig config,
                               std::unique_ptr<policy::SyncPolicy> policy, VirtualClusterOptions options)
    : model_(std::move(model)),
      options_(std::move(options)),
      controller_(starting_with(config, model_), std::move(policy), std::move(options_.replanning.replanner)),
      witnesses_(
          control::Observer(controller_.bounds(), config.dataset_size, config.total_samples, options_.start),
          options_.listeners),
      network_(model_.servers, model_.bytes, config.look_ahead),
      places_(model_.places.size()),
      slowdowns_(model_.places.size()),
      now_(options_.elapsed) {
  if (options_.start) {
    const absl::Status restored = controller_.restore(*options_.start);
    PACELINE_CHECK(restored.ok(), "{}", std::string(restored.message()));
    completed_ = told_ = options_.start->version;
  }
  plan_ = controller_.plan();
  for (const config::Slowdown& one : model_.slowdowns)
    slowdowns_[static_cast<std::size_t>(one.device)].push_back(one);
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i].port.link = model_.places[i].link;
  for (std::size_t i = 0; i < model_.changes.size(); ++i)
    at(model_.changes[i].at, Kind::kChange, static_cast<std::int32_t>(i));
  for (std::int32_t device = 0; device < options_.replanning.devices; ++device) {
    if (controller_.plans_anew()) give(control::DeviceJoined{device});
  }
  const std::vector<bool> empty = empty_at_first(model_);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!empty[i]) join(static_cast<std::int32_t>(i));
  }
}

absl::Status VirtualCluster::run_until_over() {
  while (!over()) PACELINE_RETURN_IF_ERROR(step());
  return absl::OkStatus();
}

absl::Status VirtualCluster::step() {
  if (stop_asked_ && !finished_) {
    give(*std::exchange(stop_asked_, std::nullopt));
    return trouble_;
  }
  if (under_way_ == 0 && !wake_ && !finished_) return nothing_happens();
  const auto event = events_.take();
  if (counts(event.what.kind)) --under_way_;
  if (outdated(event.what)) return absl::OkStatus();
  if (event.at > kEndOfTime) {
    return absl::OutOfRangeError(
        fmt::format("the run takes more than 100 modelled years; {} iterations are done", iterations_));
  }
  now_ = event.at;
  PACELINE_RETURN_IF_ERROR(handle(event.what));
  return trouble_;
}

absl::Status VirtualCluster::nothing_happens() {
  const auto here = std::count_if(places_.begin(), places_.end(),
                                  [](const Place& place) { return place.replica.has_value(); });
  if (here > 0 && !broken_)
    broken_ = fmt::format("at {} s {} replicas wait for ever", to_seconds(now_), here);
  return absl::FailedPreconditionError(
      fmt::format("every replica is gone after {:.1f} s and {} iterations, and none comes back",
                  to_seconds(now_), iterations_));
}

// ---- Events ----

void VirtualCluster::at(Time time, Kind kind, std::int32_t place) {
  if (counts(kind)) ++under_way_;
  const bool of_holder =
      kind != Kind::kChange && kind != Kind::kWake && kind != Kind::kComplete && kind != Kind::kTold;
  events_.put(time, {kind, place, of_holder ? places_[static_cast<std::size_t>(place)].holder : 0});
}

bool VirtualCluster::outdated(const Event& event) const {
  switch (event.kind) {
    case Kind::kPull:
    case Kind::kDone:
    case Kind::kReady:
    case Kind::kFail:
    case Kind::kRepair:
    case Kind::kFormed:
      return finished_ || event.holder != places_[static_cast<std::size_t>(event.place)].holder;
    case Kind::kComplete:
      return false;
    default:
      return finished_;
  }
}

absl::Status VirtualCluster::handle(const Event& event) {
  switch (event.kind) {
    case Kind::kPull:
      return pull(event.place);
    case Kind::kDone:
      done(event.place);
      return absl::OkStatus();
    case Kind::kReady:
      return ready(event.place);
    case Kind::kComplete:
      return complete();
    case Kind::kTold:
      told_ = told_.next();
      give(control::CommitComplete{told_});
      return absl::OkStatus();
    case Kind::kChange: {
      const Change& change = model_.changes[static_cast<std::size_t>(event.place)];
      happen(change.place, change.what);
      return absl::OkStatus();
    }
    case Kind::kFail:
      fail(event.place);
      return absl::OkStatus();
    case Kind::kRepair:
    case Kind::kFormed:
      join(event.place);
      return absl::OkStatus();
    case Kind::kLost:
      left(ReplicaId(event.place), "crashed");
      return absl::OkStatus();
    case Kind::kWake:
      if (wake_ && *wake_ <= now_) {
        wake_.reset();
        give(control::TimerRang{});
      }
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status VirtualCluster::pull(std::int32_t index) {
  Place& place = places_[static_cast<std::size_t>(index)];
  place.base = std::max(completed_, place.release.version);
  if (options_.work == nullptr) return absl::OkStatus();
  return options_.work->start(place.release, model_.places[static_cast<std::size_t>(index)]);
}

void VirtualCluster::done(std::int32_t index) {
  Place& place = places_[static_cast<std::size_t>(index)];
  if (!in_groups()) place.push = network_.push(place.port, now_);
  at(now_ + network_.latency(place.port), Kind::kReady, index);
}

absl::Status VirtualCluster::ready(std::int32_t index) {
  Place& place = places_[static_cast<std::size_t>(index)];
  control::ReplicaReady fact{.replica = *place.replica,
                             .clock = place.release.clock,
                             .base = place.base,
                             .compute = now_ - network_.latency(place.port) - place.asked,
                             .loading = place.loaded - place.asked,
                             .pulling = place.pulled - place.loaded};
  if (options_.work != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(Work::Finished finished, options_.work->finish(*place.replica));
    fact.loss = finished.loss;
    fact.metrics = std::move(finished.metrics);
    fact.weight = finished.weight;
    fact.data_end = finished.data_end;
  }
  const bool asked_for_more = iterations_ < options_.stop_after_iterations;
  iterations_ += std::max<std::int64_t>(1, place.release.steps);
  if (plan_) fact.worked = place.computed;
  give(std::move(fact));
  if (asked_for_more && iterations_ >= options_.stop_after_iterations)
    give(control::StopAsked{fmt::format("{} iterations are finished", iterations_)});
  return absl::OkStatus();
}

absl::Status VirtualCluster::complete() {
  const Pending next = std::move(pending_.front());
  pending_.pop_front();
  completed_ = next.record.version;
  witnesses_.side_work({.at = now_,
                        .version = completed_,
                        .took = next.complete - next.begun,
                        .members = std::ssize(next.record.members)});
  if (options_.work != nullptr) PACELINE_RETURN_IF_ERROR(options_.work->commit(now_, next.record));
  if (controller_.hears_of_completion()) {
    told_ = completed_;
    give(control::CommitComplete{completed_});
  }
  forget_gone();
  return absl::OkStatus();
}

// ---- Plans ----

void VirtualCluster::follow_plans() {
  if (const auto search = std::exchange(search_, std::nullopt)) give(control::searched(*search));
  if (const auto adopted = std::exchange(adopted_, std::nullopt)) change_plan(*adopted);
}

// All replicas leave, and others join when their devices have taken their roles, like in a live run. A replica that was
// released this very moment gives its samples back.
void VirtualCluster::change_plan(const control::PlanAdopted& adopted) {
  if (finished_ || planner::same_stages(adopted.plan, *plan_)) return;
  const std::string why = "re-planned: " + adopted.why;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].replica) go(static_cast<std::int32_t>(i), Duration::zero(), why);
    ++places_[i].holder;  // the replica may not have joined yet
  }
  plan_ = adopted.plan;
  first_of_plan_ = static_cast<std::int32_t>(places_.size());
  for (PlaceModel& place : options_.replanning.places(*plan_)) {
    places_.emplace_back().port.link = place.link;
    model_.places.push_back(std::move(place));
    slowdowns_.emplace_back();
  }
  for (auto i = static_cast<std::size_t>(first_of_plan_); i < places_.size(); ++i)
    at(now_ + options_.replanning.migration, Kind::kFormed, static_cast<std::int32_t>(i));
  options_.replanning.re_planned(adopted.line);
}

// ---- Membership ----

void VirtualCluster::happen(std::int64_t place, Happening what) {
  const auto index = static_cast<std::int32_t>(place);
  const bool held = places_[static_cast<std::size_t>(place)].replica.has_value();
  if (what == Happening::kJoin && !held) join(index);
  if (what == Happening::kCrash && held) go(index, model_.detection);
  if (what == Happening::kLeave && held) go(index, Duration::zero());
}

void VirtualCluster::fail(std::int32_t index) {
  go(index, model_.detection);
  const auto place = static_cast<std::size_t>(index);
  Rng rng(mix_seed({model_.seed, kFailureSeed, place, ++places_[place].failures}));
  at(now_ + exponential(model_.places[place].mttr_s, rng), Kind::kRepair, index);
}

void VirtualCluster::draw_failure(std::int32_t index) {
  const auto place = static_cast<std::size_t>(index);
  if (model_.places[place].mtbf_s <= 0) return;
  Rng rng(mix_seed({model_.seed, kFailureSeed, place, ++places_[place].failures}));
  const Time when = now_ + exponential(model_.places[place].mtbf_s, rng);
  if (when < model_.faults_end) at(when, Kind::kFail, index);
}

void VirtualCluster::join(std::int32_t index) {
  if (std::ssize(place_of_) >= options_.most_replicas) {
    return trouble_.Update(
        absl::OutOfRangeError(fmt::format("{} replicas have joined after {:.1f} s and {} iterations, and a "
                                          "run can have no more; write a larger mtbf_s",
                                          place_of_.size(), to_seconds(now_), iterations_)));
  }
  Place& place = places_[static_cast<std::size_t>(index)];
  place.replica = ReplicaId(static_cast<std::int32_t>(place_of_.size()));
  place_of_.push_back(index);
  ++place.holder;
  place.loader = {};
  network_.join(place.port.link);
  draw_failure(index);
  const PlaceModel& model = model_.places[static_cast<std::size_t>(index)];
  control::ReplicaJoined fact{*place.replica, model.name, model.batch};
  if (plan_) fact.place = index - first_of_plan_;
  give(std::move(fact));
}

void VirtualCluster::go(std::int32_t index, Duration until_heard, const std::string& why) {
  Place& place = places_[static_cast<std::size_t>(index)];
  const ReplicaId replica = *std::exchange(place.replica, std::nullopt);
  ++place.holder;
  network_.leave(place.port.link);
  if (until_heard == Duration::zero()) return left(replica, why);
  ++under_way_;
  events_.put(now_ + until_heard, {Kind::kLost, replica.value(), 0});
}

void VirtualCluster::left(ReplicaId replica, const std::string& why) {
  give(control::ReplicaLeft{replica, why});
  gone_.push_back(replica);
  forget_gone();
}

void VirtualCluster::forget_gone() {
  const auto in_a_commit = [this](ReplicaId replica) {
    return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& one) {
      const auto& members = one.record.members;
      return std::any_of(members.begin(), members.end(),
                         [&](const control::CommitMember& member) { return member.replica == replica; });
    });
  };
  std::erase_if(gone_, [&](ReplicaId replica) {
    if (in_a_commit(replica)) return false;
    if (options_.work != nullptr) options_.work->forget(replica);
    return true;
  });
}

VirtualCluster::Place* VirtualCluster::held_by(ReplicaId replica) {
  Place& place = places_[static_cast<std::size_t>(place_of_[static_cast<std::size_t>(replica.value())])];
  return place.replica == replica ? &place : nullptr;
}

// ---- The Controller ----

void VirtualCluster::give(decltype(control::Fact::what) what) {
  if (finished_) return;
  const control::Fact fact{now_, std::move(what)};
  orders_.clear();
  const absl::Status taken = controller_.handle(fact, orders_);
  PACELINE_CHECK(taken.ok(), "{}", std::string(taken.message()));
  const auto complaint = witnesses_.record(fact, orders_);
  for (const control::Order& order : orders_) carry_out(order);
  pull_together();
  follow_plans();
  if (complaint && !broken_) broken_ = fmt::format("at {} s: {}", to_seconds(now_), *complaint);
}

void VirtualCluster::carry_out(const control::Order& order) {
  std::visit(
      Overloaded{
          [&](const control::CommitRecord& record) { commit(record); },
          [&](const control::Release& one) { release(one); },
          [&](const control::WakeAt& wake) { wake_at(wake.at); },
          [&](const control::Finish&) { finished_ = true; },
          [&](const control::SearchPlan& search) { search_ = search; },
          [&](const control::PlanAdopted& adopted) { adopted_ = adopted; },
          [&](const control::NoPlan& none) { trouble_.Update(absl::ResourceExhaustedError(none.why)); },
          [](const auto&) {},
      },
      order);
}

void VirtualCluster::commit(const control::CommitRecord& record) {
  if (network_.instant()) {
    completed_ = record.version;
    if (options_.work != nullptr) trouble_.Update(options_.work->commit(now_, record));
    if (controller_.hears_of_completion()) at(now_, Kind::kTold, 0);
    return;
  }
  const Transfer pushes = push_together(record);
  const bool sum_comes = in_groups() && !network_.free();
  const Transfer update = network_.update(pushes.start, pushes.end, sum_comes ? 1 : record.members.size());
  open_ = std::max(update.start, complete_);
  complete_ = std::max(update.end, open_);
  pending_.push_back({record, open_, complete_});
  at(complete_, Kind::kComplete, 0);
}

Transfer VirtualCluster::push_together(const control::CommitRecord& record) {
  Transfer all{now_, now_};
  std::vector<Port*> ports;
  for (const control::CommitMember& member : record.members) {
    const std::int32_t index = place_of_[static_cast<std::size_t>(member.replica.value())];
    Place& place = places_[static_cast<std::size_t>(index)];
    ports.push_back(&place.port);
    all.end = std::max(all.end, place.push.end);
  }
  return in_groups() ? network_.push_group(ports, now_) : all;
}

void VirtualCluster::release(const control::Release& order) {
  Place* place = held_by(order.replica);
  if (place == nullptr) return;  // the replica crashed, and the Controller has not heard of it
  const std::int32_t index = place_of_[static_cast<std::size_t>(order.replica.value())];
  place->release = order;
  place->asked = now_ + network_.latency(place->port);
  place->loaded = place->asked;
  if (model_.load_ms > 0) {
    const std::int64_t batch = model_.places[static_cast<std::size_t>(index)].batch;
    place->loaded = std::max(
        place->asked,
        place->loader.loaded(place->asked, order, model_.load_ms / 1000 / static_cast<double>(batch)));
  }
  place->pulled = place->loaded;
  if (network_.instant()) {
    trouble_.Update(pull(index));
    return at(std::max(now_, place->loaded) + iteration_length(index), Kind::kDone, index);
  }
  if (in_groups()) return pulling_.push_back(index);
  const bool under_way = order.version > completed_;
  start_pulled(index, network_.pull(place->port, under_way ? std::max(place->asked, open_) : place->asked,
                                    under_way ? complete_ : now_));
}

void VirtualCluster::pull_together() {
  if (pulling_.empty()) return;
  std::vector<Port*> ports;
  Time asked = now_;
  bool under_way = false;
  for (const std::int32_t index : pulling_) {
    Place& place = places_[static_cast<std::size_t>(index)];
    ports.push_back(&place.port);
    asked = std::max(asked, place.asked);
    under_way = under_way || place.release.version > completed_;
  }
  const Transfer transfer =
      network_.pull_group(ports, under_way ? std::max(asked, open_) : asked, under_way ? complete_ : now_);
  for (const std::int32_t index : pulling_) start_pulled(index, transfer);
  pulling_.clear();
}

void VirtualCluster::start_pulled(std::int32_t index, const Transfer& transfer) {
  const bool under_way = places_[static_cast<std::size_t>(index)].release.version > completed_;
  at(std::max(transfer.start, under_way ? complete_ : now_), Kind::kPull, index);
  Place& place = places_[static_cast<std::size_t>(index)];
  place.pulled = std::max(transfer.end, place.loaded);
  at(place.pulled + iteration_length(index), Kind::kDone, index);
}

Duration VirtualCluster::iteration_length(std::int32_t index) {
  const auto place = static_cast<std::size_t>(index);
  const PlaceModel& model = model_.places[place];
  const control::Release& release = places_[place].release;
  if (!model.stages.empty()) return pipeline_length(model, places_[place]);
  const double batches = model_.uneven_data
                             ? static_cast<double>(release.lease.size()) / static_cast<double>(model.batch)
                             : static_cast<double>(std::max<std::int64_t>(1, release.steps));
  return bounded_seconds(
      model.compute_ms / 1000.0 * batches *
      config::unevenness_factor(model.unevenness, model_.seed, index, release.clock, release.steps) *
      config::slowdown_factor(slowdowns_[place], index, now_));
}

Duration VirtualCluster::pipeline_length(const PlaceModel& model, Place& place) const {
  const control::Release& release = place.release;
  const std::int64_t samples = release.lease.size();
  planner::PipelineTimes times;
  std::vector<double> micro_ms;  // one for each device
  for (const StageModel& stage : model.stages) {
    micro_ms.push_back(stage.sample_ms * static_cast<double>(model.micro_batch) *
                       config::unevenness_factor(stage.unevenness, model_.seed, stage.device, release.clock) *
                       config::slowdown_factor(stage.slowdowns, stage.device, now_));
    if (!stage.shares) times.stages.emplace_back();
    planner::StageTimes& shared = times.stages.back();
    shared.forward_ms.push_back(config::kForwardPart * micro_ms.back());
    shared.backward_ms.push_back((1 - config::kForwardPart) * micro_ms.back());
    if (times.stages.size() > 1)
      shared.links.resize(shared.links.size() + times.stages[times.stages.size() - 2].forward_ms.size());
  }
  place.computed.clear();
  for (const planner::StageTimes& stage : times.stages) {
    const std::size_t width = stage.forward_ms.size();
    for (std::size_t turn = 0; turn < width; ++turn) {
      const auto own = static_cast<double>(samples_in_turn(samples, model.micro_batch, turn, width));
      place.computed.push_back(bounded_seconds(micro_ms[place.computed.size()] / 1000 * own /
                                               static_cast<double>(model.micro_batch)));
    }
  }
  const std::int64_t micros = (samples + model.micro_batch - 1) / model.micro_batch;
  const std::int64_t last = samples - (micros - 1) * model.micro_batch;
  const double ms =
      planner::pipeline_ms(times, micros, static_cast<double>(last) / static_cast<double>(model.micro_batch));
  return bounded_seconds(ms / 1000);
}

void VirtualCluster::wake_at(Time when) {
  wake_ = when;
  at(std::max(now_, when), Kind::kWake, 0);
}

}  // namespace paceline::sim
