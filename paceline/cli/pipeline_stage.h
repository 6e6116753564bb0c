// A worker's part in a replica that is a pipeline of several: its stage of the model, and the channels to its
// neighbours. One thread.
//
// Whoever waits here for a neighbour waits for ever if that one is dead: the coordinator notices, and the
// worker is interrupted.
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
#include "paceline/collective/pipeline_schedule.h"
#include "paceline/config/job_config.h"
#include "paceline/rpc/paceline.pb.h"
#include "paceline/train/dataset.h"
#include "paceline/train/micro_batches.h"
#include "paceline/train/stage.h"
#include "paceline/transport/channel.h"
#include "paceline/transport/gradient_buffer.h"

namespace paceline::cli {

class PipelineStage {
 public:
  // Waits at most so long; true when the iteration under way is to be given up.
  using Interrupted = std::function<bool(std::chrono::nanoseconds)>;

  // `own`: this worker's gradient, which is the replica's where it is the first stage; it outlives this.
  // Errors: InvalidArgument when the model has no such stage; NotFound when a neighbour died this very
  // moment.
  static absl::StatusOr<PipelineStage> create(const config::JobConfig& job, const train::DataSet& data,
                                              const rpc::wire::Role& role, transport::GradientWriter& own,
                                              Interrupted interrupted);

  // For the stage behind; empty in the last one.
  std::string link_path() const;
  bool first() const { return previous_ == std::nullopt; }
  bool last() const { return next_ == std::nullopt; }

  struct Iteration {
    std::int64_t samples = 0;
    train::Batch batch;  // its inputs are used in the first stage, its targets in the last
    std::uint64_t seed = 0;
    // How long such a part of the work of `samples` samples on the whole model is to take, when it took
    // `compute`.
    std::function<Duration(double part, Duration compute)> pace;
  };
  struct Done {
    double loss = 0;  // in the last stage
    // Its time: in passes, keeping its pace, and waiting for its neighbours.
    Duration compute{0}, pace{0}, waited{0};
  };
  // Its part of the gradient. When it returns in the first stage, the whole gradient is there: that one's
  // last step needs the last ones of all others. Nothing when it was interrupted. Errors: those of
  // train::Stage; DataLoss when a neighbour sent what cannot be.
  absl::StatusOr<std::optional<Done>> run(const Iteration& iteration, std::span<const float* const> weights);

 private:
  PipelineStage() = default;
  // One step of the schedule. False when it was interrupted.
  absl::StatusOr<bool> take(const collective::PipelineStep& step, const Iteration& iteration,
                            const train::MicroBatches& micros, Done& done);
  absl::Status forward(std::int64_t micro, const Iteration& iteration, const train::MicroBatches& micros,
                       Done& done);
  absl::StatusOr<bool> send(transport::Channel& to);
  absl::StatusOr<bool> receive(transport::Channel& from, const std::vector<std::int64_t>& shape,
                               std::int64_t samples);

  std::unique_ptr<train::Stage> stage_;
  std::optional<transport::Channel> previous_;
  std::optional<transport::Channel> next_;
  std::optional<transport::GradientWriter> others_gradient_;  // of the first stage, in the others
  std::vector<float*> gradients_;                             // by tensor
  Interrupted interrupted_;
  int number_ = 0;
  int stages_ = 1;
  std::int64_t micro_batch_ = 1;
  double share_of_work_ = 1;
  torch::Tensor in_hand_;  // what was received or computed last
};

}  // namespace paceline::cli
