// The computation of a worker: an engine, its own gradient, and its role, a whole replica or a stage of one.
// It talks only to its engine and the neighbours of a stage. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/sample_order.h"
#include "paceline/base/time.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/processes/compute/board_readers.h"
#include "paceline/processes/compute/local_steps.h"
#include "paceline/processes/compute/own_engine.h"
#include "paceline/processes/compute/pipeline_stage.h"

namespace paceline::compute {

class Computation {
 public:
  // Creates the computation of the device `name` in this job, on `own`; what it sends to other hosts is
  // counted in `traffic`. Both outlive this; `address`: the host's address for stages on other hosts; empty:
  // they may not reach it. Unless the servers have weights, the gradient holds the model's initial ones at
  // first: they may start from them. Errors: everything that can be wrong with the job on this machine.
  static absl::StatusOr<std::unique_ptr<Computation>> create(const wire::Welcome& welcome,
                                                             const std::string& name,
                                                             const std::string& address, OwnEngine& own,
                                                             StageTraffic& traffic,
                                                             PipelineStage::Interrupted interrupted);
  ~Computation();

  const config::JobConfig& job() const { return job_; }
  const ps::Layout& layout() const { return layout_; }
  // A worker's report about itself when it attaches.
  wire::WorkerAttached attached() const;
  // Uses new memory after a role in which other stages wrote to it: a stage that stood still may write later.
  memory::GradientWriter& gradient() { return *gradient_; }
  // Memory in which weights will lie.
  void share(std::span<const engine::Memory> memories);
  // The servers have taken the first weights and the optimizer's state, so their memory is let go. A stage writes only a
  // part of a gradient, and often into another worker's memory. Errors: no memory.
  absl::Status servers_started();
  // The servers keep these parts' weights and gradients in cards' memory: from the next role on these parts of the gradient
  // lie there. Errors: there are no addresses for them.
  absl::Status use_cards(const std::vector<CardPart>& parts);

  // Errors: those of PipelineStage::create; this worker has no address, or cannot listen there.
  absl::Status take(const wire::Role& role);
  void leave();
  // The role's replica; nothing without a role.
  std::optional<std::int32_t> replica() const;
  bool is_stage() const { return stage_.has_value(); }
  // Channels through which other devices of the replica find this one. Null if it is alone.
  const StageChannels* channels() const { return stage_ ? &stage_->channels() : nullptr; }

  // engine::Engine::lengths() of the engine.
  std::span<const engine::ShardLength> lengths() const { return engine_->lengths(); }

  struct Computed {
    double loss = 0;  // loss of a whole replica, or of a device's part in the last stage
    // Parts of the time it took: keeping a stage's pace, waiting for other stages, loading samples.
    Duration pace{0}, stages{0}, loading{0};
    Metrics metrics = {};
    bool finite = false;                        // the whole gradient is known to be
    std::string not_finite = {};                // a tensor whose gradient is not, if the engine says so
    std::optional<double> weight = {};          // engine::StepResult::weight
    std::optional<std::int64_t> data_end = {};  // engine::StepResult::data_end
  };
  // An iteration from its weights on, one pointer a tensor. Nothing when it was interrupted.
  using Compute = std::function<absl::StatusOr<std::optional<Computed>>(const engine::Weights&)>;
  // All of it that needs no weights. Valid until the next one, and while `release` is there. Requires: a
  // role.
  absl::StatusOr<Compute> prepare(const wire::WorkerRelease& release);

  // The job is done, and these are its last weights. Errors: the engine's.
  absl::Status take_last(const engine::Weights& weights);

  // About the whole gradient, on the first device only. The servers check their results in any case.
  struct Contributed {
    std::string not_finite;  // the name of a tensor that is not; empty: all is finite
    double norm = 0;         // given if outliers are rejected
  };
  Contributed contributed(const Computed& done);
  // The gradient of this iteration is whole, and may be read.
  void finish(Clock clock);
  // The coordinator was told that it is ready, and nothing that the commit depends on. Requires: a role.
  void say_ready(Clock clock) { gradient_->say_ready(ReplicaId(*replica()), clock); }
  // How long the iteration that took `taken` so far takes at the pace of this device; a stage has kept it by
  // itself.
  Duration paced(const wire::WorkerRelease& release, Duration taken) const;

 private:
  Computation(std::string address, StageTraffic& traffic, PipelineStage::Interrupted interrupted)
      : address_(std::move(address)), traffic_(traffic), interrupted_(std::move(interrupted)) {}
  absl::Status find_place(const std::string& name);
  // The gradient. If servers may read them, the model's first weights and its optimizer's state are in it.
  absl::Status make_first(const wire::Welcome& welcome, OwnEngine& own);
  // `streams`: as GradientWriter::create() says.
  absl::Status make_gradient(int streams = 0);
  void share_gradient(const engine::Memory& memory);
  void share_gradient_on_cards(std::int32_t replica);
  absl::Status open_links();
  absl::Status expect(std::vector<engine::Batch> now, const wire::WorkerRelease& release);
  absl::StatusOr<Compute> prepare_steps(const Lease& lease, const wire::WorkerRelease& release);
  absl::StatusOr<Compute> prepare_stage(const Lease& lease, const wire::WorkerRelease& release);
  bool keep_going() const { return !interrupted_(std::chrono::nanoseconds::zero()); }
  double norm();
  Duration paced(const wire::WorkerRelease& release, double iterations, Duration compute) const;

  const std::string address_;
  StageTraffic& traffic_;
  const PipelineStage::Interrupted interrupted_;
  config::JobConfig job_;
  std::size_t place_ = 0;
  engine::Engine* engine_ = nullptr;
  std::vector<const std::byte*> shared_;  // with the engine, until this goes
  std::optional<SampleOrder> order_, order_ahead_;
  // Leases reserved for this worker: a batch for each, or one for each step on it.
  std::vector<std::pair<Lease, std::vector<engine::Batch>>> expected_;
  ps::Layout layout_;
  std::optional<memory::GradientWriter> gradient_;
  std::vector<float*> gradients_;             // one for each tensor
  std::vector<std::uint32_t> constants_;      // CRC-32 of each constant of the model (OwnEngine::constants())
  std::optional<std::uint32_t> first_state_;  // wire::WorkerAttached::first_state
  std::optional<std::uint32_t> first_weights_;  // wire::WorkerAttached::first_weights
  bool others_may_write_ = false;               // to the gradient
  std::vector<CardPart> card_parts_;            // the argument of use_cards()
  std::optional<LocalSteps> local_;             // set if the policy has its replicas step by themselves
  std::optional<wire::Role> role_;
  std::unique_ptr<links::LinkChannels> links_;  // null before it was a stage with others on other hosts
  std::optional<PipelineStage> stage_;          // set if the replica is a pipeline
};

}  // namespace paceline::compute
