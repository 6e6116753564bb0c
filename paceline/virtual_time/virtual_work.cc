#include "paceline/virtual_time/virtual_work.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/ps/look_ahead.h"
#include "paceline/train/stage.h"

namespace paceline::virtual_time {

namespace {

// Posts `compute`, and gives what it will return.
template <class Result>
std::future<Result> compute_on(compute::ComputePool& pool, std::function<Result(train::Replica&)> compute) {
  const auto task = std::make_shared<std::packaged_task<Result(train::Replica&)>>(std::move(compute));
  pool.post([task](train::Replica& replica) { (*task)(replica); });
  return task->get_future();
}

absl::StatusOr<std::vector<std::unique_ptr<train::Replica>>> make_replicas(const config::JobConfig& job,
                                                                           const train::DataSet& data) {
  const std::size_t threads = std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()),
                                                    job.parallel.plan.replicas.size());
  std::vector<std::unique_ptr<train::Replica>> replicas(threads);
  for (auto& replica : replicas) {
    PACELINE_ASSIGN_OR_RETURN(
        replica, train::Replica::create(job.model, data.sample_shape(), data.classes(), job.seed));
  }
  return replicas;
}

}  // namespace

VirtualWork::Slot::Slot(const ps::Layout& layout)
    : weights(static_cast<std::size_t>(layout.size())),
      gradient(static_cast<std::size_t>(layout.size())),
      weights_by_tensor(train::tensor_pointers<const float>(layout, weights.data())),
      gradient_by_tensor(train::tensor_pointers(layout, gradient.data())) {}

absl::StatusOr<std::unique_ptr<VirtualWork>> VirtualWork::create(const config::JobConfig& job,
                                                                 const std::optional<rpc::Restart>& restart,
                                                                 rpc::CheckpointSink& checkpoints,
                                                                 OnEvaluated on_evaluated) {
  PACELINE_ASSIGN_OR_RETURN(train::DataSets data, train::load_data(job.data, job.model.context));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t units,
                            train::unit_count(job.model, data.train->sample_shape(), data.train->classes()));
  PACELINE_RETURN_IF_ERROR(config::check_units(job.parallel, job.model.name, units));
  PACELINE_ASSIGN_OR_RETURN(auto replicas, make_replicas(job, *data.train));
  ps::Layout layout = replicas.front()->layout();
  PACELINE_ASSIGN_OR_RETURN(LocalShards shards, LocalShards::create(job, layout));
  if (restart) {
    PACELINE_RETURN_IF_ERROR(shards.start(restart->state.version, restart->checkpoint_dir));
  } else {
    std::vector<float> weights(static_cast<std::size_t>(layout.size()));
    replicas.front()->initial_weights(weights);
    shards.start(weights);
  }
  auto pool = std::make_unique<compute::ComputePool>(std::move(replicas));
  std::unique_ptr<VirtualWork> work(new VirtualWork(job, std::move(data), units, std::move(layout),
                                                    std::move(shards), std::move(pool), checkpoints,
                                                    std::move(on_evaluated)));
  if (restart) work->saved_ = restart->state.version;
  return work;
}

VirtualWork::VirtualWork(const config::JobConfig& job, train::DataSets data, std::int64_t units,
                         ps::Layout layout, LocalShards shards, std::unique_ptr<compute::ComputePool> pool,
                         rpc::CheckpointSink& checkpoints, OnEvaluated on_evaluated)
    : job_(job),
      data_(std::move(data)),
      units_(units),
      layout_(std::move(layout)),
      shards_(std::move(shards)),
      order_(job.seed, data_.train->size()),
      checkpoints_(checkpoints),
      on_evaluated_(std::move(on_evaluated)),
      evaluated_(layout_),
      pool_(std::move(pool)) {}

VirtualWork::Slot& VirtualWork::slot(ReplicaId replica) {
  std::unique_ptr<Slot>& slot = slots_[replica];
  if (slot == nullptr) slot = std::make_unique<Slot>(layout_);
  return *slot;
}

absl::Status VirtualWork::start(const control::Release& release) {
  Slot& mine = slot(release.replica);
  pull(release, mine.weights);
  if (release.steps > 0) {
    start_steps(release, mine);
    return absl::OkStatus();
  }
  const auto samples = order_.samples(release.lease);
  mine.step = compute_on<absl::StatusOr<train::StepResult>>(
      *pool_,
      [&mine, indices = std::vector<std::int32_t>(samples.begin(), samples.end()),
       augment_seed = order_.augment_seed(release.lease), step_seed = order_.step_seed(release.lease),
       data = data_.train.get(), micro_batch = job_.parallel.plan.micro_batch](train::Replica& replica) {
        return replica.step(data->batch(indices, augment_seed), mine.weights_by_tensor,
                            mine.gradient_by_tensor, step_seed, micro_batch);
      });
  return absl::OkStatus();
}

void VirtualWork::start_steps(const control::Release& release, Slot& mine) {
  if (!mine.local) mine.local.emplace(layout_, job_.optimizer);
  mine.step = compute_on<absl::StatusOr<train::StepResult>>(
      *pool_, [&mine, samples = compute::step_samples(order_, release.lease, release.steps),
               rate = release.learning_rate, data = data_.train.get()](train::Replica& replica) {
        return mine.local->take(replica, *data, samples, rate, mine.weights_by_tensor,
                                mine.gradient_by_tensor);
      });
}

void VirtualWork::pull(const control::Release& release, std::span<float> weights) const {
  if (!job_.look_ahead) return shards_.copy_weights(weights);
  const double reach =
      ps::look_ahead_reach(job_.optimizer, release.learning_rate, release.staleness, release.fraction);
  shards_.copy_weights_ahead(static_cast<float>(reach), weights);
}

absl::StatusOr<double> VirtualWork::finish(ReplicaId replica) {
  PACELINE_ASSIGN_OR_RETURN(const train::StepResult result, slot(replica).step.get());
  return result.loss;
}

absl::Status VirtualWork::commit(Time at, const control::CommitRecord& record) {
  std::vector<const float*> gradients;
  for (const control::CommitMember& member : record.members)
    gradients.push_back(slot(member.replica).gradient.data());
  PACELINE_RETURN_IF_ERROR(shards_.apply(record, gradients));
  if (record.checkpoint) PACELINE_RETURN_IF_ERROR(save(*record.checkpoint, at.time_since_epoch()));
  return record.keep_for_evaluation ? evaluate(at, record) : absl::OkStatus();
}

absl::Status VirtualWork::evaluate(Time at, const control::CommitRecord& record) {
  shards_.copy_weights(evaluated_.weights);
  auto result = compute_on<absl::StatusOr<train::Evaluation>>(*pool_, [this](train::Replica& replica) {
    return replica.evaluate(*data_.test, evaluated_.weights_by_tensor, job_.evaluate_batch,
                            [] { return true; });
  });
  PACELINE_ASSIGN_OR_RETURN(const train::Evaluation evaluation, result.get());
  on_evaluated_({.at = at,
                 .version = record.version,
                 .samples = record.committed_after(),
                 .loss = evaluation.loss,
                 .accuracy = evaluation.accuracy});
  return absl::OkStatus();
}

absl::Status VirtualWork::save(const control::ControllerState& state, Duration elapsed) {
  if (std::exchange(saved_, state.version) == state.version) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const std::string dir, checkpoints_.begin(state.version));
  PACELINE_RETURN_IF_ERROR(shards_.write(dir));
  return checkpoints_.finish(state, elapsed);
}

}  // namespace paceline::virtual_time
