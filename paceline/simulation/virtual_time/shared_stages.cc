#include "paceline/simulation/virtual_time/shared_stages.h"

#include <algorithm>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/computing/engine/micro_batches.h"
#include "paceline/processes/compute/shared.h"
#include "paceline/transport/collective/weighted_sum.h"

namespace paceline::virtual_time {

SharedStages::~SharedStages() {
  for (const ipc::SharedFloats& gradient : gradients_) engine_.forget(gradient.mapping().data());
}

bool any_shared(const std::vector<sim::StageModel>& devices) {
  return std::any_of(devices.begin(), devices.end(), [](const sim::StageModel& one) { return one.shares; });
}

absl::StatusOr<std::unique_ptr<SharedStages>> SharedStages::create(
    engine::Engine& engine, const std::vector<sim::StageModel>& devices, std::int64_t micro_batch) {
  std::unique_ptr<SharedStages> made(new SharedStages(engine, micro_batch));
  std::size_t widest = 0;
  std::int64_t largest = 0;
  for (const sim::StageModel& device : devices) {
    if (!device.shares) made->stages_.emplace_back();
    Stage& stage = made->stages_.back();
    PACELINE_ASSIGN_OR_RETURN(stage.emplace_back(), engine.make_stage(device.begin, device.end));
    widest = std::max(widest, stage.size());
    if (&device != &devices.back()) largest = std::max(largest, stage.back()->output_bytes(micro_batch));
  }
  made->message_.resize(static_cast<std::size_t>(largest));
  for (std::size_t turn = 1; turn < widest; ++turn) {
    PACELINE_ASSIGN_OR_RETURN(auto gradient,
                              ipc::SharedFloats::create("paceline-part", made->layout_.size()));
    engine.share(compute::memory_of(gradient, true));
    made->gradients_.push_back(std::move(gradient));
  }
  return made;
}

absl::StatusOr<engine::StepResult> SharedStages::step(const engine::Batch& batch,
                                                      std::span<const float* const> weights,
                                                      std::span<float> gradient,
                                                      const engine::KeepGoing& keep_going) {
  const auto samples = static_cast<std::int64_t>(batch.samples.size());
  for (Stage& stage : stages_) {
    for (std::size_t turn = 0; turn < stage.size(); ++turn) {
      float* own = turn == 0 ? gradient.data() : gradients_[turn - 1].floats().data();
      PACELINE_RETURN_IF_ERROR(stage[turn]->prepare(batch));
      PACELINE_RETURN_IF_ERROR(stage[turn]->start(weights, engine::tensor_pointers(layout_, own), samples,
                                                  micro_batch_, batch.step_seed, keep_going));
    }
  }
  const engine::MicroBatches micros(samples, micro_batch_);
  engine::StepResult result;
  std::vector<double> losses(stages_.back().size(), 0);  // one for each turn
  for (std::int64_t m = 0; m < micros.count(); ++m) {
    PACELINE_ASSIGN_OR_RETURN(const double loss, run(m, keep_going));
    losses[static_cast<std::size_t>(m) % losses.size()] += micros.share(m) * loss;
  }
  for (const Stage& stage : stages_) {
    for (const auto& device : stage) {
      PACELINE_ASSIGN_OR_RETURN(const engine::StageResult part, device->finish(keep_going));
      if (&stage != &stages_.back()) continue;
      result.metrics = part.metrics;
      result.weight = part.weight;
      if (part.weight) losses = {part.loss};  // no devices share the stage then
    }
    for (std::size_t turn = 1; turn < stage.size(); ++turn) {
      for (const ps::FloatRange& range : stage[turn]->floats()) {
        collective::accumulate(gradient.data() + range.begin,
                               gradients_[turn - 1].floats().data() + range.begin, 1.0F,
                               range.end - range.begin);
      }
    }
  }
  for (const double loss : losses) result.loss += loss;
  return result;
}

absl::StatusOr<double> SharedStages::run(std::int64_t micro, const engine::KeepGoing& keep_going) {
  const auto at = [&](std::size_t s) -> engine::Stage& {
    return *stages_[s][static_cast<std::size_t>(micro) % stages_[s].size()];
  };
  double loss = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    if (s > 0) PACELINE_RETURN_IF_ERROR(hand_on(at(s - 1), at(s), micro, true));
    PACELINE_ASSIGN_OR_RETURN(loss, s + 1 < stages_.size() ? at(s).forward(micro, keep_going)
                                                           : at(s).forward_backward(micro, keep_going));
  }
  for (std::size_t s = stages_.size() - 1; s-- > 0;) {
    PACELINE_RETURN_IF_ERROR(hand_on(at(s + 1), at(s), micro, false));
    PACELINE_RETURN_IF_ERROR(at(s).backward(micro, keep_going));
  }
  return loss;
}

absl::Status SharedStages::hand_on(engine::Stage& from, engine::Stage& to, std::int64_t micro, bool forward) {
  PACELINE_ASSIGN_OR_RETURN(const std::size_t bytes, from.send(message_));
  const std::span<const std::byte> message(message_.data(), bytes);
  return forward ? to.receive_input(micro, message) : to.receive_gradient(micro, message);
}

}  // namespace paceline::virtual_time
