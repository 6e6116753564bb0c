#include "paceline/processes/compute/pipeline_stage.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/compute/gradient_pieces.h"

namespace paceline::compute {

namespace {

using std::chrono::steady_clock;

// Times that a device without a pace adds up to are rounded.
constexpr std::chrono::microseconds kNoPace{1};

// Between two stages: outputs one way, their gradients the other.
channels::ChannelSizes link_sizes(std::int64_t bytes) {
  const channels::ChannelSize size{.slots = 2, .slot_bytes = bytes};
  return {size, size};
}

struct UnitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

UnitRange units_of(const wire::Role& role, std::int64_t units) {
  const int stage = role.stage();
  return {stage == 0 ? 0 : role.cuts(stage - 1), stage == role.cuts_size() ? units : role.cuts(stage)};
}

std::optional<engine::Pass> pass_of(collective::PipelineOp op) {
  switch (op) {
    case collective::PipelineOp::kForward:
      return engine::Pass::kForward;
    case collective::PipelineOp::kBackward:
      return engine::Pass::kBackward;
    case collective::PipelineOp::kForwardBackward:
      return engine::Pass::kForwardBackward;
    default:
      return std::nullopt;
  }
}

// The part of a stage's work on a micro-batch.
double part_of_work(collective::PipelineOp pass) {
  switch (pass) {
    case collective::PipelineOp::kForward:
      return config::kForwardPart;
    case collective::PipelineOp::kBackward:
      return 1 - config::kForwardPart;
    default:
      return 1;
  }
}

absl::StatusOr<collective::PipelinePlace> place_of(const wire::Role& role) {
  collective::PipelinePlace place;
  place.stage = static_cast<std::size_t>(role.stage());
  place.turn = static_cast<std::size_t>(role.turn());
  place.widths.clear();
  bool good = role.stage() >= 0 && role.stage() <= role.cuts_size() && role.micro_batch() >= 1 &&
              role.widths_size() == role.cuts_size() + 1 && role.turn() >= 0;
  for (const std::int32_t width : role.widths()) {
    good = good && width >= 1;
    place.widths.push_back(static_cast<std::size_t>(width));
  }
  if (good && place.turn < place.widths[place.stage]) return place;
  return absl::InvalidArgumentError(
      fmt::format("the coordinator gave the role of stage {}, turn {}", role.stage(), role.turn()));
}

}  // namespace

absl::StatusOr<PipelineStage> PipelineStage::create(const config::JobConfig& job, engine::Engine& engine,
                                                    const wire::Role& role, memory::GradientWriter& own,
                                                    links::LinkChannels* links, StageTraffic& traffic,
                                                    Interrupted interrupted) {
  const std::int64_t units = engine.units();
  PACELINE_ASSIGN_OR_RETURN(collective::PipelinePlace place, place_of(role));
  const UnitRange range = units_of(role, units);
  PACELINE_ASSIGN_OR_RETURN(auto stage, engine.make_stage(range.begin, range.end));
  const StageChannels::Sizes sizes{.previous = link_sizes(stage->input_bytes(role.micro_batch())),
                                   .next = link_sizes(stage->output_bytes(role.micro_batch())),
                                   .gradient = gradient_channel(stage->layout().size())};
  PACELINE_ASSIGN_OR_RETURN(auto channels,
                            StageChannels::open(role, sizes, links, traffic, std::move(interrupted)));
  PipelineStage made(std::move(place), std::move(channels), own.gradient());
  if (!made.first() && !role.has_home()) {
    PACELINE_ASSIGN_OR_RETURN(made.others_gradient_,
                              memory::GradientWriter::open(role.gradient_path(), stage->layout().size()));
    made.gradient_ = made.others_gradient_->gradient();
    made.others_shared_.emplace(engine, memory_of(*made.others_gradient_));
  }
  made.gradients_ = engine::tensor_pointers(stage->layout(), made.gradient_.data());
  if (role.has_home()) made.pieces_ = pieces_of(stage->floats());
  made.stage_ = std::move(stage);
  made.micro_batch_ = role.micro_batch();
  made.share_of_work_ = config::share_of_work(job.parallel.work, range.begin, range.end, units);
  return made;
}

absl::StatusOr<std::optional<PipelineStage::Done>> PipelineStage::run(const Iteration& iteration,
                                                                      std::span<const float* const> weights) {
  const absl::Status started = stage_->start(weights, gradients_, iteration.samples, micro_batch_,
                                             iteration.seed, [this] { return keep_going(); });
  if (absl::IsCancelled(started)) return std::nullopt;
  PACELINE_RETURN_IF_ERROR(started);
  const engine::MicroBatches micros(iteration.samples, micro_batch_);
  const auto start = steady_clock::now();
  Done done;
  const std::vector<collective::PipelineStep> steps = collective::pipeline_steps(place_, micros.count());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // A device that keeps a pace lengthens each pass by its own time, so it begins none early.
    if (i > 0 && done.pace < kNoPace) expect(std::span(steps).subspan(i));
    PACELINE_ASSIGN_OR_RETURN(const bool taken, take(steps[i], iteration, micros, done));
    if (!taken) return std::nullopt;
  }
  auto result = stage_->finish([this] { return keep_going(); });
  if (absl::IsCancelled(result.status())) return std::nullopt;
  PACELINE_RETURN_IF_ERROR(result.status());
  done.metrics = std::move(result->metrics);
  done.weight = result->weight;
  if (done.weight) done.loss = result->loss;
  if (channels_.home() != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(const bool brought, bring_home(*channels_.home()));
    if (!brought) return std::nullopt;
  }
  // The first stage's parts come first. When they are there, every backward pass of every stage is over, and
  // what other devices write to this gradient is written.
  for (const StageChannels::Part& part : channels_.gradients()) {
    PACELINE_ASSIGN_OR_RETURN(const bool whole, take_in(part));
    if (!whole) return std::nullopt;
  }
  done.waited = steady_clock::now() - start - done.compute - done.pace;
  return done;
}

void PipelineStage::expect(std::span<const collective::PipelineStep> steps) {
  if (!pass_of(steps.front().op)) return;
  if (steps.size() == 1) return stage_->expect_finish();
  if (const auto next = pass_of(steps[1].op)) stage_->expect_pass(*next, steps[1].micro);
}

absl::StatusOr<bool> PipelineStage::take(const collective::PipelineStep& step, const Iteration& iteration,
                                         const engine::MicroBatches& micros, Done& done) {
  using collective::PipelineOp;
  switch (step.op) {
    case PipelineOp::kReceiveInput:
      return receive(channels_.previous(step.micro), step.micro, &engine::Stage::receive_input);
    case PipelineOp::kReceiveGradient:
      return receive(channels_.next(step.micro), step.micro, &engine::Stage::receive_gradient);
    case PipelineOp::kSendOutput:
      return send(channels_.next(step.micro));
    case PipelineOp::kSendGradient:
      return send(channels_.previous(step.micro));
    case PipelineOp::kForward:
    case PipelineOp::kBackward:
    case PipelineOp::kForwardBackward:
      break;
  }
  auto passed = pass(step, iteration, micros, done);
  if (absl::IsCancelled(passed.status())) return false;
  return passed;
}

absl::StatusOr<bool> PipelineStage::pass(const collective::PipelineStep& step, const Iteration& iteration,
                                         const engine::MicroBatches& micros, Done& done) {
  const auto start = steady_clock::now();
  const auto going = [this] { return keep_going(); };
  if (step.op == collective::PipelineOp::kBackward) {
    PACELINE_RETURN_IF_ERROR(stage_->backward(step.micro, going));
  } else {
    PACELINE_ASSIGN_OR_RETURN(const double loss, step.op == collective::PipelineOp::kForward
                                                     ? stage_->forward(step.micro, going)
                                                     : stage_->forward_backward(step.micro, going));
    done.loss += micros.share(step.micro) * loss;
  }
  const Duration compute = steady_clock::now() - start;
  const double part = share_of_work_ * micros.share(step.micro) * part_of_work(step.op);
  const Duration whole = iteration.pace(part, compute);
  done.compute += compute;
  done.pace += whole - compute;
  return !channels_.interrupted(start + whole - steady_clock::now());
}

absl::StatusOr<bool> PipelineStage::send(channels::Channel& to) {
  PACELINE_ASSIGN_OR_RETURN(const auto room, channels_.room(to));
  if (!room) return false;
  PACELINE_ASSIGN_OR_RETURN(const std::size_t bytes, stage_->send(*room));
  to.send(bytes);
  return true;
}

absl::StatusOr<bool> PipelineStage::receive(channels::Channel& from, std::int64_t micro,
                                            Receive receive_with) {
  PACELINE_ASSIGN_OR_RETURN(const auto message, channels_.message(from));
  if (!message) return false;
  PACELINE_RETURN_IF_ERROR((*stage_.*receive_with)(micro, *message));
  from.release();
  return true;
}

absl::StatusOr<bool> PipelineStage::bring_home(channels::Channel& home) {
  for (const ps::FloatRange& piece : pieces_) {
    PACELINE_ASSIGN_OR_RETURN(const auto room, channels_.room(home));
    if (!room) return false;
    home.send(write_piece(piece, gradient_, *room));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto room, channels_.room(home));
  if (room) home.send(0);
  return room.has_value();
}

absl::StatusOr<bool> PipelineStage::take_in(const StageChannels::Part& part) {
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const auto message, channels_.message(*part.channel));
    if (!message) return false;
    const bool over = message->empty();
    if (!over)
      PACELINE_RETURN_IF_ERROR(read_piece(*message, part.adds ? Piece::kAdd : Piece::kPut, gradient_));
    part.channel->release();
    if (over) return true;
  }
}

}  // namespace paceline::compute
