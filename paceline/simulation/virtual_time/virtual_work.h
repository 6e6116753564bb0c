// The real part of virtual time: gradients, updates, evaluations and checkpoints of a job, in one process.
// Gradients are computed beside the run on a few threads, and the run waits for them when their time has
// come. So the results do not depend on the threads' speed. One thread calls.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/base/data_order.h"
#include "paceline/base/sample_order.h"
#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/coordinator/restart.h"
#include "paceline/processes/compute/compute_pool.h"
#include "paceline/processes/compute/local_steps.h"
#include "paceline/records/store/checkpoint_sink.h"
#include "paceline/simulation/sim/work.h"
#include "paceline/simulation/virtual_time/deviation_meter.h"
#include "paceline/simulation/virtual_time/local_shards.h"
#include "paceline/simulation/virtual_time/shared_stages.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::virtual_time {

class VirtualWork final : public sim::Work {
 public:
  using OnEvaluated = std::function<void(const control::Evaluated&)>;

  // Reads the data and starts from initial weights, or from `restart`. `job` and `checkpoints` outlive it.
  static absl::StatusOr<std::unique_ptr<VirtualWork>> create(
      const config::JobConfig& job, const std::string& run_folder,
      const std::optional<coordinator::Restart>& restart, store::CheckpointSink& checkpoints,
      OnEvaluated on_evaluated);

  ~VirtualWork() override;

  std::int64_t dataset_size() const { return samples_; }
  const DataOrder& data_order() const { return data_order_; }
  std::int64_t units() const { return units_; }
  std::int64_t model_bytes() const { return layout_.size() * static_cast<std::int64_t>(sizeof(float)); }

  // The job is over: the last call. Errors: a program's failure after the job.
  absl::Status end();

  // Only under SGD. Replicas that step by themselves have no late gradients.
  std::optional<report::UsedWeights> used_weights() const {
    return deviation_ ? deviation_->measured() : std::nullopt;
  }

  absl::Status start(const control::Release& release, const sim::PlaceModel& place) override;
  absl::StatusOr<Finished> finish(ReplicaId replica) override;
  absl::Status commit(Time at, const control::CommitRecord& record) override;
  void forget(ReplicaId replica) override;

  // Writes the version of `state`, the newest that is ordered, unless it is on disk. A version whose commit is not
  // complete yet is written when it is: before that, the weights are those of an earlier one.
  absl::Status save(const control::ControllerState& state, Duration elapsed);
  // The weights are no finite numbers, and commit() has failed.
  bool has_diverged() const { return !shards_.finite(); }
  // The newest version on disk; below 0: none.
  Version saved() const { return saved_; }

 private:
  // One replica's copy of the weights, and its gradient. Tasks hold it as well.
  struct Slot {
    static absl::StatusOr<std::unique_ptr<Slot>> create(const ps::Layout& layout, compute::ComputePool& pool);
    ipc::SharedFloats weights;
    ipc::SharedFloats gradient;
    std::vector<const float*> weights_by_tensor;
    std::vector<float*> gradient_by_tensor;
    std::optional<compute::LocalSteps> local;  // set once the replica has stepped by itself
    std::unique_ptr<SharedStages> stages;      // set once the replica has computed with shared stages
    std::future<absl::StatusOr<engine::StepResult>> step;
    DeviationMeter::Pulled pulled{};
  };

  VirtualWork(const config::JobConfig& job, std::int32_t samples, SampleOrder order, std::int64_t units,
              ps::Layout layout, LocalShards shards, std::unique_ptr<compute::ComputePool> pool,
              store::CheckpointSink& checkpoints, OnEvaluated on_evaluated);
  absl::StatusOr<Slot*> slot(ReplicaId replica);
  absl::Status start_steps(const control::Release& release, Slot& mine);
  void start_shared(const control::Release& release, const sim::PlaceModel& place, Slot& mine);
  // Copies the weights on which the replica has to compute.
  void pull(const control::Release& release, std::span<float> weights) const;
  void measure(const control::CommitRecord& record);
  absl::Status evaluate(Time at, const control::CommitRecord& record);
  absl::Status diverged(const control::CommitRecord& record, std::span<const float* const> gradients) const;

  const config::JobConfig& job_;
  const std::int32_t samples_;  // samples of the training set
  const std::int64_t units_;    // units of the model
  DataOrder data_order_;
  const ps::Layout layout_;
  LocalShards shards_;
  SampleOrder order_;
  store::CheckpointSink& checkpoints_;
  std::optional<double> last_loss_;  // the last loss that was a finite number
  const OnEvaluated on_evaluated_;
  Version made_{0};                                 // the version of the weights
  std::optional<control::ControllerState> wanted_;  // to be written when its version is made
  Version saved_{-1};
  std::map<ReplicaId, std::unique_ptr<Slot>> slots_;
  std::unique_ptr<Slot> evaluated_;             // the weights under evaluation
  std::optional<DeviationMeter> deviation_;     // set under SGD
  std::vector<float> newest_;                   // the newest weights, for deviation_
  std::unique_ptr<compute::ComputePool> pool_;  // last member, because its tasks use the others
};

}  // namespace paceline::virtual_time
