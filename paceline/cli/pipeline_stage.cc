#include "paceline/cli/pipeline_stage.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/train/replica.h"
#include "paceline/train/tensor_bytes.h"

namespace paceline::cli {

namespace {

using std::chrono::steady_clock;
// How often a wait for a neighbour looks up whether it is to end.
constexpr std::chrono::milliseconds kPatience{20};

// Between two stages: outputs one way, their gradients the other.
transport::ChannelSizes link_sizes(const std::vector<std::int64_t>& shape, std::int64_t micro_batch) {
  const transport::ChannelSize size{.slots = 2, .slot_bytes = train::tensor_bytes(shape, micro_batch)};
  return {size, size};
}

absl::StatusOr<train::UnitRange> units_of(const rpc::wire::Role& role, std::int64_t units) {
  const int stage = role.stage();
  if (stage < 0 || stage > role.cuts_size() || role.micro_batch() < 1)
    return absl::InvalidArgumentError(fmt::format("the coordinator gave the role of stage {}", stage));
  return train::UnitRange{stage == 0 ? 0 : role.cuts(stage - 1),
                          stage == role.cuts_size() ? units : role.cuts(stage)};
}

}  // namespace

absl::StatusOr<PipelineStage> PipelineStage::create(const config::JobConfig& job, const train::DataSet& data,
                                                    const rpc::wire::Role& role,
                                                    transport::GradientWriter& own, Interrupted interrupted) {
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t units,
                            train::unit_count(job.model, data.sample_shape(), data.classes()));
  PACELINE_ASSIGN_OR_RETURN(const train::UnitRange range, units_of(role, units));
  PipelineStage made;
  PACELINE_ASSIGN_OR_RETURN(made.stage_,
                            train::Stage::create(job.model, data.sample_shape(), data.classes(), range));
  made.interrupted_ = std::move(interrupted);
  made.number_ = role.stage();
  made.stages_ = role.cuts_size() + 1;
  made.micro_batch_ = role.micro_batch();
  made.share_of_work_ = config::share_of_work(job.parallel.work, range.begin, range.end, units);
  if (made.number_ > 0) {
    PACELINE_ASSIGN_OR_RETURN(
        made.previous_, transport::Channel::open(role.previous_link(),
                                                 link_sizes(made.stage_->input_shape(), made.micro_batch_)));
    PACELINE_ASSIGN_OR_RETURN(made.others_gradient_, transport::GradientWriter::open(
                                                         role.gradient_path(), made.stage_->layout().size()));
  }
  if (made.number_ + 1 < made.stages_) {
    PACELINE_ASSIGN_OR_RETURN(
        made.next_, transport::Channel::create(link_sizes(made.stage_->output_shape(), made.micro_batch_)));
  }
  transport::GradientWriter& gradient = made.others_gradient_ ? *made.others_gradient_ : own;
  made.gradients_ = train::tensor_pointers(made.stage_->layout(), gradient.gradient().data());
  return made;
}

std::string PipelineStage::link_path() const { return next_ ? next_->path() : ""; }

absl::StatusOr<std::optional<PipelineStage::Done>> PipelineStage::run(const Iteration& iteration,
                                                                      std::span<const float* const> weights) {
  PACELINE_RETURN_IF_ERROR(stage_->start(weights, gradients_, iteration.seed));
  const train::MicroBatches micros(iteration.samples, micro_batch_);
  const auto start = steady_clock::now();
  Done done;
  for (const collective::PipelineStep& step : collective::pipeline_steps(number_, stages_, micros.count())) {
    PACELINE_ASSIGN_OR_RETURN(const bool taken, take(step, iteration, micros, done));
    if (!taken) return std::nullopt;
  }
  done.waited = steady_clock::now() - start - done.compute - done.pace;
  return done;
}

absl::StatusOr<bool> PipelineStage::take(const collective::PipelineStep& step, const Iteration& iteration,
                                         const train::MicroBatches& micros, Done& done) {
  using collective::PipelineOp;
  switch (step.op) {
    case PipelineOp::kReceiveInput:
      return receive(*previous_, stage_->input_shape(), micros.size(step.micro));
    case PipelineOp::kReceiveGradient:
      return receive(*next_, stage_->output_shape(), micros.size(step.micro));
    case PipelineOp::kSendOutput:
      return send(*next_);
    case PipelineOp::kSendGradient:
      return send(*previous_);
    case PipelineOp::kForward:
    case PipelineOp::kBackward:
      break;
  }
  const auto start = steady_clock::now();
  const bool is_forward = step.op == PipelineOp::kForward;
  if (is_forward) {
    PACELINE_RETURN_IF_ERROR(forward(step.micro, iteration, micros, done));
  } else {
    PACELINE_ASSIGN_OR_RETURN(in_hand_, stage_->backward(step.micro, in_hand_));
  }
  const Duration compute = steady_clock::now() - start;
  const double part = share_of_work_ * micros.share(step.micro) *
                      (is_forward ? config::kForwardPart : 1 - config::kForwardPart);
  const Duration whole = iteration.pace(part, compute);
  done.compute += compute;
  done.pace += whole - compute;
  return !interrupted_(start + whole - steady_clock::now());
}

absl::Status PipelineStage::forward(std::int64_t micro, const Iteration& iteration,
                                    const train::MicroBatches& micros, Done& done) {
  const torch::Tensor input = first() ? micros.of(iteration.batch.inputs, micro) : in_hand_;
  const double share = micros.share(micro);
  if (last()) {
    PACELINE_ASSIGN_OR_RETURN(
        const double loss, stage_->forward(micro, input, micros.of(iteration.batch.targets, micro), share));
    done.loss += share * loss;
    in_hand_ = torch::Tensor();
  } else {
    PACELINE_ASSIGN_OR_RETURN(in_hand_, stage_->forward(micro, input, share));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> PipelineStage::send(transport::Channel& to) {
  auto room = to.room(kPatience);
  while (!room) {
    if (interrupted_(std::chrono::nanoseconds::zero())) return false;
    room = to.room(kPatience);
  }
  PACELINE_ASSIGN_OR_RETURN(const std::size_t bytes, train::write_tensor(in_hand_, *room));
  to.send(bytes);
  return true;
}

absl::StatusOr<bool> PipelineStage::receive(transport::Channel& from, const std::vector<std::int64_t>& shape,
                                            std::int64_t samples) {
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const auto message, from.message(kPatience));
    if (message) {
      PACELINE_ASSIGN_OR_RETURN(in_hand_, train::read_tensor(*message, shape, samples));
      from.release();
      return true;
    }
    if (interrupted_(std::chrono::nanoseconds::zero())) return false;
  }
}

}  // namespace paceline::cli
