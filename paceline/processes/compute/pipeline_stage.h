// A worker's part in a replica that is a pipeline of several: its stage of the model, which it may share with
// others, and the channels to devices of other stages (stage_channels.h). One thread.
//
// A gradient is whole in the first device's memory. Of the other stages on its host the first device of each
// writes its part there; all other devices write to their own memory and send it at the end of the batch.
// Parts of devices that share a stage are added in the order of their turns, so the sum has the same bits
// every time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/time.h"
#include "paceline/computing/engine/engine.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/processes/compute/shared.h"
#include "paceline/processes/compute/stage_channels.h"
#include "paceline/transport/collective/pipeline_schedule.h"
#include "paceline/transport/links/link_channels.h"

namespace paceline::compute {

class PipelineStage {
 public:
  using Interrupted = StageChannels::Interrupted;

  // `own`: this worker's gradient, which is the replica's where it is the first device; it outlives this, and
  // so do `links`; these and `traffic` as StageChannels has them. Errors: InvalidArgument when the model has
  // no such stage; those of StageChannels.
  static absl::StatusOr<PipelineStage> create(const config::JobConfig& job, engine::Engine& engine,
                                              const wire::Role& role, memory::GradientWriter& own,
                                              links::LinkChannels* links, StageTraffic& traffic,
                                              Interrupted interrupted);

  // The device that has the whole gradient.
  bool first() const { return place_.stage == 0 && place_.turn == 0; }
  const StageChannels& channels() const { return channels_; }

  struct Iteration {
    std::int64_t samples = 0;
    std::uint64_t seed = 0;
    // How long such a part of the work of `samples` samples on the whole model is to take, when it took
    // `compute`.
    std::function<Duration(double part, Duration compute)> pace;
  };
  struct Done {
    double loss = 0;  // in the last stage: of this device's micro-batches, each by its share of the samples
    Metrics metrics = {};
    std::optional<double> weight = {};  // engine::StageResult::weight
    // Its time: in passes, keeping its pace, and waiting for its neighbours.
    Duration compute{0}, pace{0}, waited{0};
  };
  // Loads what this stage needs of a batch.
  absl::Status prepare(const engine::Batch& batch) { return stage_->prepare(batch); }
  // Its part of the gradient of that batch. When it has returned in all devices, the gradient is whole.
  // nullopt if it was interrupted. Errors: those of engine::Stage and of StageChannels; DataLoss if another
  // device sent an impossible message.
  absl::StatusOr<std::optional<Done>> run(const Iteration& iteration, std::span<const float* const> weights);

 private:
  PipelineStage(collective::PipelinePlace place, StageChannels channels, std::span<float> gradient)
      : place_(std::move(place)), channels_(std::move(channels)), gradient_(gradient) {}
  // Tells the stage what comes right after the first of these steps, which are those that are left.
  void expect(std::span<const collective::PipelineStep> steps);
  // One step of the schedule. False when it was interrupted.
  absl::StatusOr<bool> take(const collective::PipelineStep& step, const Iteration& iteration,
                            const engine::MicroBatches& micros, Done& done);
  absl::StatusOr<bool> pass(const collective::PipelineStep& step, const Iteration& iteration,
                            const engine::MicroBatches& micros, Done& done);
  bool keep_going() const { return !channels_.interrupted(std::chrono::nanoseconds::zero()); }
  absl::StatusOr<bool> send(channels::Channel& to);
  using Receive = absl::Status (engine::Stage::*)(std::int64_t micro, std::span<const std::byte> message);
  absl::StatusOr<bool> receive(channels::Channel& from, std::int64_t micro, Receive take);
  // Parts of the gradient between devices. False when it was interrupted.
  absl::StatusOr<bool> bring_home(channels::Channel& home);
  absl::StatusOr<bool> take_in(const StageChannels::Part& part);

  collective::PipelinePlace place_;
  std::unique_ptr<engine::Stage> stage_;
  StageChannels channels_;
  std::optional<memory::GradientWriter> others_gradient_;  // the first device's, in devices that write to it
  std::optional<SharedWith> others_shared_;                // with the engine
  std::span<float> gradient_;                              // the gradient that this device writes
  std::vector<float*> gradients_;                          // one for each tensor
  std::vector<ps::FloatRange> pieces_;                     // pieces of the gradient, for the first device
  std::int64_t micro_batch_ = 1;
  double share_of_work_ = 1;
};

}  // namespace paceline::compute
