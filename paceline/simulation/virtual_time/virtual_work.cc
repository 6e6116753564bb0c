#include "paceline/simulation/virtual_time/virtual_work.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/control_groups.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/engine/built_in.h"
#include "paceline/computing/program/program_engine.h"
#include "paceline/decisions/control/divergence.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/processes/compute/shared.h"
#include "paceline/records/store/weights_file.h"

namespace paceline::virtual_time {

namespace {

// Posts `compute`, and gives what it will return.
template <class Result>
std::future<Result> compute_on(compute::ComputePool& pool, std::function<Result(engine::Engine&)> compute) {
  const auto task = std::make_shared<std::packaged_task<Result(engine::Engine&)>>(std::move(compute));
  pool.post([task](engine::Engine& engine) { (*task)(engine); });
  return task->get_future();
}

// Several share the processors, and one thread adds up in one order.
constexpr int kThreads = 1;
bool always() { return true; }

// Two processes of one program have the same frozen tensors, or they compute different models.
absl::Status check_frozen(const engine::Engine& first, const engine::Engine& other) {
  const auto same = [](const engine::FrozenTensor& one, const engine::FrozenTensor& two) {
    return one.name == two.name && one.digest == two.digest;
  };
  const auto known = first.frozen(), others = other.frozen();
  const auto [differs, _] = std::mismatch(known.begin(), known.end(), others.begin(), others.end(), same);
  if (differs == known.end() && known.size() == others.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("two processes of the program have other values of '{}', and it is frozen: before join(), "
                  "load the same file in "
                  "both, or seed the model (torch.manual_seed) before you build it",
                  differs == known.end() ? others[known.size()].name : differs->name));
}

absl::StatusOr<std::vector<std::unique_ptr<engine::Engine>>> make_engines(const config::JobConfig& job,
                                                                          const std::string& run_folder) {
  // The stages of a replica stay in one engine, and a program's are not for two threads.
  const bool one = job.program && job.parallel.of_stages();
  const std::size_t count =
      one ? 1 : std::min(static_cast<std::size_t>(usable_processors()), job.parallel.plan.replicas.size());
  if (!job.program) {
    const engine::BuiltIn* models = engine::built_in();
    if (models == nullptr) return engine::no_built_in_models();
    return models->make(job, engine::BuiltIn::Use::kTrain, kThreads, static_cast<int>(count));
  }
  std::vector<std::unique_ptr<engine::Engine>> engines(count);
  for (std::size_t i = 0; i < count; ++i) {
    program::StartOptions options =
        program::start_options(job, program::Role::kVirtual, "w" + std::to_string(i), kThreads);
    if (i == 0) options.start.run_folder = run_folder;
    options.start.host_folder = run_folder;
    PACELINE_ASSIGN_OR_RETURN(engines[i], program::ProgramEngine::start(options));
    PACELINE_RETURN_IF_ERROR(check_frozen(*engines[0], *engines[i]));
  }
  return engines;
}

// With the state of the engine's optimizer, if it brings one.
absl::Status start_with(engine::Engine& first, const config::JobConfig& job, std::span<const float> weights,
                        LocalShards& shards) {
  if (first.first_steps() == 0) return shards.start(weights);
  if (std::holds_alternative<policy::LocalSgdSpec>(job.policy))
    PACELINE_RETURN_IF_ERROR(compute::LocalSteps::check_stateless(first));
  PACELINE_ASSIGN_OR_RETURN(
      auto state, ipc::SharedFloats::create("paceline-state", ps::state_streams(job.optimizer.kind) *
                                                                  static_cast<std::int64_t>(weights.size())));
  first.share(compute::memory_of(state, true));
  PACELINE_RETURN_IF_ERROR(first.first_state(state.floats()));
  first.forget(state.mapping().data());
  return shards.start(weights, state.floats(), first.first_steps());
}

}  // namespace

absl::StatusOr<std::unique_ptr<VirtualWork::Slot>> VirtualWork::Slot::create(const ps::Layout& layout,
                                                                             compute::ComputePool& pool) {
  PACELINE_ASSIGN_OR_RETURN(auto weights, ipc::SharedFloats::create("paceline-weights", layout.size()));
  PACELINE_ASSIGN_OR_RETURN(auto gradient, ipc::SharedFloats::create("paceline-gradient", layout.size()));
  pool.share(compute::memory_of(weights, false));
  pool.share(compute::memory_of(gradient, true));
  auto slot = std::make_unique<Slot>(Slot{std::move(weights), std::move(gradient), {}, {}, {}, {}, {}});
  slot->weights_by_tensor = engine::tensor_pointers<const float>(layout, slot->weights.floats().data());
  slot->gradient_by_tensor = engine::tensor_pointers(layout, slot->gradient.floats().data());
  return slot;
}

absl::StatusOr<std::unique_ptr<VirtualWork>> VirtualWork::create(
    const config::JobConfig& job, const std::string& run_folder,
    const std::optional<coordinator::Restart>& restart, store::CheckpointSink& checkpoints,
    OnEvaluated on_evaluated) {
  PACELINE_ASSIGN_OR_RETURN(auto engines, make_engines(job, run_folder));
  engine::Engine& first = *engines.front();
  ps::Layout layout = first.layout();
  PACELINE_ASSIGN_OR_RETURN(LocalShards shards, LocalShards::create(job, layout));
  if (restart) {
    PACELINE_RETURN_IF_ERROR(shards.start(restart->state.version, restart->checkpoint_dir));
  } else {
    PACELINE_ASSIGN_OR_RETURN(auto weights, ipc::SharedFloats::create("paceline-initial", layout.size()));
    first.share(compute::memory_of(weights, true));
    PACELINE_RETURN_IF_ERROR(first.initial_weights(weights.floats()));
    first.forget(weights.mapping().data());
    if (!job.initial_weights.empty())
      PACELINE_RETURN_IF_ERROR(store::read_weights(job.initial_weights, layout, weights.floats()));
    PACELINE_RETURN_IF_ERROR(start_with(first, job, weights.floats(), shards));
  }
  const std::int32_t samples = first.samples();
  SampleOrder order(job.seed, samples, first.in_order());
  DataOrder data_order = first.data_order();
  if (restart)
    PACELINE_RETURN_IF_ERROR(same_data(restart->data_order, data_order, restart->state.ledger.next));
  const std::int64_t units = first.units();
  auto pool = std::make_unique<compute::ComputePool>(std::move(engines));
  std::unique_ptr<VirtualWork> work(new VirtualWork(job, samples, std::move(order), units, std::move(layout),
                                                    std::move(shards), std::move(pool), checkpoints,
                                                    std::move(on_evaluated)));
  PACELINE_ASSIGN_OR_RETURN(work->evaluated_, Slot::create(work->layout_, *work->pool_));
  work->data_order_ = std::move(data_order);
  if (restart) work->made_ = work->saved_ = restart->state.version;
  return work;
}

VirtualWork::VirtualWork(const config::JobConfig& job, std::int32_t samples, SampleOrder order,
                         std::int64_t units, ps::Layout layout, LocalShards shards,
                         std::unique_ptr<compute::ComputePool> pool, store::CheckpointSink& checkpoints,
                         OnEvaluated on_evaluated)
    : job_(job),
      samples_(samples),
      units_(units),
      layout_(std::move(layout)),
      shards_(std::move(shards)),
      order_(std::move(order)),
      checkpoints_(checkpoints),
      on_evaluated_(std::move(on_evaluated)),
      pool_(std::move(pool)) {
  if (job.optimizer.kind != ps::OptimizerKind::kSgd || job.optimizer.momentum >= 1) return;
  deviation_.emplace(layout_, job.optimizer.momentum);
  newest_.resize(static_cast<std::size_t>(layout_.size()));
}

// Stages use the engines, which go first.
VirtualWork::~VirtualWork() {
  for (auto& [replica, slot] : slots_) {
    if (slot->step.valid()) slot->step.wait();
    slot->stages.reset();
  }
}

absl::StatusOr<VirtualWork::Slot*> VirtualWork::slot(ReplicaId replica) {
  std::unique_ptr<Slot>& slot = slots_[replica];
  if (slot == nullptr) {
    PACELINE_ASSIGN_OR_RETURN(slot, Slot::create(layout_, *pool_));
  }
  return slot.get();
}

absl::Status VirtualWork::start(const control::Release& release, const sim::PlaceModel& place) {
  PACELINE_ASSIGN_OR_RETURN(Slot* const mine, slot(release.replica));
  pull(release, mine->weights.floats());
  if (deviation_) mine->pulled = deviation_->now();
  if (release.steps > 0) return start_steps(release, *mine);
  if (any_shared(place.stages)) {
    start_shared(release, place, *mine);
    return absl::OkStatus();
  }
  mine->step = compute_on<absl::StatusOr<engine::StepResult>>(
      *pool_,
      [mine, batch = compute::batch_of(order_, release.lease), micro_batch = job_.parallel.plan.micro_batch](
          engine::Engine& engine) -> absl::StatusOr<engine::StepResult> {
        PACELINE_RETURN_IF_ERROR(engine.prepare(batch));
        return compute::step_until_taken(engine, batch, mine->weights_by_tensor, mine->gradient_by_tensor,
                                         micro_batch, always);
      });
  return absl::OkStatus();
}

absl::Status VirtualWork::start_steps(const control::Release& release, Slot& mine) {
  if (!mine.local) {
    PACELINE_ASSIGN_OR_RETURN(mine.local, compute::LocalSteps::create(layout_, job_.optimizer));
    for (const engine::Memory& memory : mine.local->memories()) pool_->share(memory);
  }
  mine.step = compute_on<absl::StatusOr<engine::StepResult>>(
      *pool_, [&mine, batches = compute::step_samples(order_, release.lease, release.steps),
               rate = release.learning_rate](engine::Engine& engine) {
        return mine.local->take(engine, batches, rate, mine.weights_by_tensor, mine.gradient_by_tensor,
                                always);
      });
  return absl::OkStatus();
}

void VirtualWork::start_shared(const control::Release& release, const sim::PlaceModel& place, Slot& mine) {
  mine.step = compute_on<absl::StatusOr<engine::StepResult>>(
      *pool_,
      [&mine, batch = compute::batch_of(order_, release.lease), devices = place.stages,
       micro_batch = place.micro_batch](engine::Engine& engine) -> absl::StatusOr<engine::StepResult> {
        if (mine.stages == nullptr) {
          PACELINE_ASSIGN_OR_RETURN(mine.stages, SharedStages::create(engine, devices, micro_batch));
        }
        return mine.stages->step(batch, mine.weights_by_tensor, mine.gradient.floats(), always);
      });
}

void VirtualWork::pull(const control::Release& release, std::span<float> weights) const {
  if (!job_.look_ahead) return shards_.copy_weights(weights);
  const double reach =
      ps::look_ahead_reach(job_.optimizer, release.learning_rate, release.staleness, release.fraction);
  shards_.copy_weights_ahead(static_cast<float>(reach), weights);
}

absl::StatusOr<sim::Work::Finished> VirtualWork::finish(ReplicaId replica) {
  PACELINE_ASSIGN_OR_RETURN(Slot* const mine, slot(replica));
  PACELINE_ASSIGN_OR_RETURN(engine::StepResult result, mine->step.get());
  if (std::isfinite(result.loss)) last_loss_ = result.loss;
  return Finished{result.loss, std::move(result.metrics), result.weight, result.data_end};
}

void VirtualWork::forget(ReplicaId replica) {
  const auto found = slots_.find(replica);
  if (found == slots_.end()) return;
  Slot& slot = *found->second;
  if (slot.step.valid()) slot.step.wait();  // its gradient is not needed, but it is written to this slot
  pool_->forget(slot.weights.mapping().data());
  pool_->forget(slot.gradient.mapping().data());
  if (slot.local) {
    for (const engine::Memory& memory : slot.local->memories()) pool_->forget(memory.base);
  }
  slots_.erase(found);
}

absl::Status VirtualWork::commit(Time at, const control::CommitRecord& record) {
  std::vector<const float*> gradients;
  for (const control::CommitMember& member : record.members) {
    PACELINE_ASSIGN_OR_RETURN(const Slot* const theirs, slot(member.replica));
    gradients.push_back(theirs->gradient.floats().data());
  }
  if (deviation_ && !record.of_differences) measure(record);
  PACELINE_RETURN_IF_ERROR(shards_.apply(record, gradients));
  if (!shards_.finite()) return diverged(record, gradients);
  made_ = record.version;
  if (record.checkpoint) PACELINE_RETURN_IF_ERROR(save(*record.checkpoint, at.time_since_epoch()));
  if (wanted_ && wanted_->version == made_) {
    PACELINE_RETURN_IF_ERROR(save(*wanted_, at.time_since_epoch()));
    wanted_.reset();
  }
  return record.keep_for_evaluation ? evaluate(at, record) : absl::OkStatus();
}

void VirtualWork::measure(const control::CommitRecord& record) {
  shards_.copy_weights(newest_);
  for (const control::CommitMember& member : record.members) {
    const Slot& theirs = *slots_.at(member.replica);
    deviation_->add(theirs.weights.floats(), newest_, theirs.gradient.floats(), theirs.pulled,
                    record.learning_rate);
  }
  deviation_->committed(record.fraction, record.learning_rate);
}

absl::Status VirtualWork::diverged(const control::CommitRecord& record,
                                   std::span<const float* const> gradients) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!ps::all_finite(layout_, gradients[i]))
      names.push_back(fmt::format("replica {}", record.members[i].replica));
  }
  if (names.size() == gradients.size()) names.clear();
  return control::diverged(record.version, last_loss_, fmt::to_string(fmt::join(names, ", ")));
}

absl::Status VirtualWork::evaluate(Time at, const control::CommitRecord& record) {
  shards_.copy_weights(evaluated_->weights.floats());
  auto result = compute_on<absl::StatusOr<engine::Evaluation>>(*pool_, [this](engine::Engine& engine) {
    return engine.evaluate(evaluated_->weights_by_tensor, job_.evaluate_batch, always);
  });
  PACELINE_ASSIGN_OR_RETURN(const engine::Evaluation evaluation, result.get());
  on_evaluated_({.at = at,
                 .version = record.version,
                 .samples = record.committed_after(),
                 .loss = evaluation.loss,
                 .accuracy = evaluation.accuracy,
                 .metrics = evaluation.metrics});
  return absl::OkStatus();
}

absl::Status VirtualWork::end() {
  shards_.copy_weights(evaluated_->weights.floats());
  return pool_->end(
      [this](engine::Engine& engine) { return engine.take_last(evaluated_->weights_by_tensor, always); });
}

absl::Status VirtualWork::save(const control::ControllerState& state, Duration elapsed) {
  if (state.version > made_) {
    wanted_ = state;
    return absl::OkStatus();
  }
  if (std::exchange(saved_, state.version) == state.version) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const std::string dir, checkpoints_.begin(state.version));
  PACELINE_RETURN_IF_ERROR(shards_.write(dir));
  return checkpoints_.finish(state, elapsed);
}

}  // namespace paceline::virtual_time
