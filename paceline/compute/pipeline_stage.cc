#include "paceline/compute/pipeline_stage.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/compute/gradient_pieces.h"
#include "paceline/train/replica.h"
#include "paceline/train/tensor_bytes.h"

namespace paceline::compute {

namespace {

using std::chrono::steady_clock;

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
                                                    transport::GradientWriter& own,
                                                    transport::LinkChannels* links, Interrupted interrupted) {
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t units,
                            train::unit_count(job.model, data.sample_shape(), data.classes()));
  PACELINE_ASSIGN_OR_RETURN(const train::UnitRange range, units_of(role, units));
  PACELINE_ASSIGN_OR_RETURN(auto stage,
                            train::Stage::create(job.model, data.sample_shape(), data.classes(), range));
  const StageChannels::Sizes sizes{.previous = link_sizes(stage->input_shape(), role.micro_batch()),
                                   .next = link_sizes(stage->output_shape(), role.micro_batch()),
                                   .gradient = gradient_channel(stage->layout().size())};
  PACELINE_ASSIGN_OR_RETURN(auto channels, StageChannels::open(role, sizes, links, std::move(interrupted)));
  PipelineStage made(std::move(channels), own.gradient());
  if (role.stage() > 0 && !role.has_home()) {
    PACELINE_ASSIGN_OR_RETURN(made.others_gradient_,
                              transport::GradientWriter::open(role.gradient_path(), stage->layout().size()));
    made.gradient_ = made.others_gradient_->gradient();
  }
  made.gradients_ = train::tensor_pointers(stage->layout(), made.gradient_.data());
  if (role.has_home()) made.pieces_ = pieces_of(stage->floats());
  made.stage_ = std::move(stage);
  made.number_ = role.stage();
  made.stages_ = role.cuts_size() + 1;
  made.micro_batch_ = role.micro_batch();
  made.share_of_work_ = config::share_of_work(job.parallel.work, range.begin, range.end, units);
  return made;
}

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
  if (channels_.home() != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(const bool brought, bring_home(*channels_.home()));
    if (!brought) return std::nullopt;
  }
  for (const auto& from : channels_.gradients()) {
    PACELINE_ASSIGN_OR_RETURN(const bool whole, take_in(*from));
    if (!whole) return std::nullopt;
  }
  done.waited = steady_clock::now() - start - done.compute - done.pace;
  return done;
}

absl::StatusOr<bool> PipelineStage::take(const collective::PipelineStep& step, const Iteration& iteration,
                                         const train::MicroBatches& micros, Done& done) {
  using collective::PipelineOp;
  switch (step.op) {
    case PipelineOp::kReceiveInput:
      return receive(channels_.previous(), stage_->input_shape(), micros.size(step.micro));
    case PipelineOp::kReceiveGradient:
      return receive(channels_.next(), stage_->output_shape(), micros.size(step.micro));
    case PipelineOp::kSendOutput:
      return send(channels_.next());
    case PipelineOp::kSendGradient:
      return send(channels_.previous());
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
  return !channels_.interrupted(start + whole - steady_clock::now());
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
  PACELINE_ASSIGN_OR_RETURN(const auto room, channels_.room(to));
  if (!room) return false;
  PACELINE_ASSIGN_OR_RETURN(const std::size_t bytes, train::write_tensor(in_hand_, *room));
  to.send(bytes);
  return true;
}

absl::StatusOr<bool> PipelineStage::receive(transport::Channel& from, const std::vector<std::int64_t>& shape,
                                            std::int64_t samples) {
  PACELINE_ASSIGN_OR_RETURN(const auto message, channels_.message(from));
  if (!message) return false;
  PACELINE_ASSIGN_OR_RETURN(in_hand_, train::read_tensor(*message, shape, samples));
  from.release();
  return true;
}

absl::StatusOr<bool> PipelineStage::bring_home(transport::Channel& home) {
  for (const train::FloatRange& piece : pieces_) {
    PACELINE_ASSIGN_OR_RETURN(const auto room, channels_.room(home));
    if (!room) return false;
    home.send(write_piece(piece, gradient_, *room));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto room, channels_.room(home));
  if (room) home.send(0);
  return room.has_value();
}

absl::StatusOr<bool> PipelineStage::take_in(transport::Channel& from) {
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const auto message, channels_.message(from));
    if (!message) return false;
    const bool over = message->empty();
    if (!over) PACELINE_RETURN_IF_ERROR(read_piece(*message, gradient_));
    from.release();
    if (over) return true;
  }
}

}  // namespace paceline::compute
