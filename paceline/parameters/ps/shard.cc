#include "paceline/parameters/ps/shard.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/parameters/ps/host_stepper.h"
#include "paceline/parameters/ps/look_ahead.h"

namespace paceline::ps {

Shard::Shard(Layout layout, OptimizerConfig optimizer, memory::WeightWriter board, int threads,
             std::span<const ParameterGroup> groups, const std::optional<WholeModel>& whole,
             std::optional<KeptState> state)
    : Shard(std::make_unique<const StepPlan>(StepPlan::of(std::move(layout), optimizer, groups, whole)),
            std::move(board), nullptr) {
  stepper_ = std::make_unique<HostStepper>(*plan_, threads, std::move(state));
}

Shard::Shard(std::unique_ptr<const StepPlan> plan, memory::WeightWriter board,
             std::unique_ptr<Stepper> stepper)
    : plan_(std::move(plan)), board_(std::move(board)), stepper_(std::move(stepper)) {
  const auto floats = static_cast<std::int64_t>(board_.latest().size());
  PACELINE_CHECK(floats == board_floats(layout(), false) || floats == board_floats(layout(), true),
                 "a board of {} floats for {}", floats, layout().size());
}

absl::Status Shard::start(Version version, std::span<const float> weights) {
  PACELINE_CHECK(static_cast<std::int64_t>(weights.size()) == layout().size(), "{} weights for {}",
                 weights.size(), layout().size());
  PACELINE_ASSIGN_OR_RETURN(const std::span<float> first, board_.take());
  with_constants_ = {first.data()};
  // No update yet: there is no direction.
  PACELINE_ASSIGN_OR_RETURN(
      finite_,
      stepper_->begin(weights, fractions_ == 0 ? std::vector<StepNumbers>() : numbers_of(0, 1), first));
  stepper_->start_at(version, fractions_);
  board_.publish(version);
  return absl::OkStatus();
}

// A version that is not finite is never published.
absl::Status Shard::take_up() {
  PACELINE_ASSIGN_OR_RETURN(const KeptState::Left left, stepper_->take_up(version()));
  fractions_ = left.fractions;
  begun_ = left.begun;
  with_constants_ = {board_.latest().data()};
  finite_ = true;
  return absl::OkStatus();
}

// Only of buffers that are used, so that a board takes no more memory than it needs.
absl::StatusOr<std::span<float>> Shard::take_buffer() {
  PACELINE_ASSIGN_OR_RETURN(const std::span<float> buffer,
                            std::exchange(begun_, false) ? board_.take_again() : board_.take());
  if (plan_->moving_floats == layout().size() ||
      std::find(with_constants_.begin(), with_constants_.end(), buffer.data()) != with_constants_.end())
    return buffer;
  PACELINE_RETURN_IF_ERROR(stepper_->copy_constants(weights(), buffer));
  with_constants_.push_back(buffer.data());
  return buffer;
}

absl::Status Shard::restore_optimizer(OptimizerState state) {
  const bool fits = static_cast<int>(state.streams.size()) == state_streams(plan_->optimizer.kind) &&
                    std::all_of(state.streams.begin(), state.streams.end(), [&](const auto& stream) {
                      return static_cast<std::int64_t>(stream.size()) == layout().size();
                    });
  if (!fits)
    return absl::InvalidArgumentError("the optimizer state is another optimizer's or another model's");
  PACELINE_RETURN_IF_ERROR(stepper_->set_state(std::move(state.streams)));
  fractions_ = state.fractions;
  return absl::OkStatus();
}

absl::Status Shard::check(const Update& update) const {
  if (update.version != version().next()) {
    return absl::FailedPreconditionError(
        fmt::format("commit {} came after commit {}", update.version, version()));
  }
  if (update.of_differences && plan_->optimizer.kind != OptimizerKind::kSgd)
    return absl::InvalidArgumentError("only replicas that step with SGD can give differences of weights");
  return absl::OkStatus();
}

absl::Status Shard::apply(const Update& update) {
  if (update.version <= version()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(check(update));
  PACELINE_RETURN_IF_ERROR(make(update, false));
  if (update.only_finite && !finite_)
    return absl::OutOfRangeError(fmt::format("version {} is not finite", update.version));
  board_.publish(update.version);
  return absl::OkStatus();
}

absl::Status Shard::prepare(const Update& update) {
  PACELINE_CHECK(!prepared_, "commit {} is prepared before {} is published", update.version, *prepared_);
  PACELINE_RETURN_IF_ERROR(check(update));
  PACELINE_RETURN_IF_ERROR(make(update, true));
  prepared_ = update.version;
  return absl::OkStatus();
}

void Shard::publish() {
  board_.publish(*prepared_);
  prepared_.reset();
}

absl::Status Shard::make(const Update& update, bool undoable) {
  fractions_before_ = fractions_;
  fractions_ += update.fraction;
  const std::vector<StepNumbers> numbers =
      update.of_differences ? std::vector<StepNumbers>(plan_->optimizers.size(), averaging_numbers())
                            : numbers_of(update.learning_rate, update.fraction);
  absl::StatusOr<bool> finite = step(update, numbers, undoable);
  if (finite.ok())
    finite_ = *finite;
  else
    fractions_ = fractions_before_;
  return finite.status();
}

absl::StatusOr<bool> Shard::step(const Update& update, std::span<const StepNumbers> numbers, bool undoable) {
  PACELINE_ASSIGN_OR_RETURN(const std::span<float> buffer, take_buffer());
  return stepper_->step({.update = update,
                         .numbers = numbers,
                         .latest = board_.latest(),
                         .next = buffer,
                         .undoable = undoable,
                         .fractions = fractions_});
}

std::vector<StepNumbers> Shard::numbers_of(double learning_rate, double fraction) const {
  std::vector<StepNumbers> numbers;
  for (const OptimizerConfig& optimizer : plan_->optimizers) {
    numbers.push_back(step_numbers(optimizer, learning_rate, fraction, fractions_));
    numbers.back().direction = static_cast<float>(direction_scale(plan_->optimizer, optimizer));
  }
  return numbers;
}

absl::StatusOr<OptimizerState> Shard::read_state() const {
  PACELINE_ASSIGN_OR_RETURN(StateStreams streams, stepper_->state(prepared_.has_value()));
  return OptimizerState{std::move(streams), prepared_ ? fractions_before_ : fractions_};
}

absl::StatusOr<std::vector<float>> Shard::read_gradient(const GradientPlace& whole,
                                                        std::int64_t offset) const {
  const GradientPlace part = whole.from(offset);
  const auto* const narrow = reinterpret_cast<const float*>(part.narrow);
  const auto floats = static_cast<std::size_t>(layout().size());
  const auto begin = static_cast<std::size_t>(layout().narrow());
  std::vector<float> values(floats);
  const std::span<float> to(values);
  PACELINE_RETURN_IF_ERROR(stepper_->read({narrow, begin / 2}, to.first(begin / 2)));
  PACELINE_RETURN_IF_ERROR(stepper_->read({part.wide + begin, floats - begin}, to.subspan(begin)));
  return values;
}

absl::StatusOr<std::vector<float>> Shard::read(std::span<const float> floats) const {
  std::vector<float> values(floats.size());
  PACELINE_RETURN_IF_ERROR(stepper_->read(floats, values));
  return values;
}

}  // namespace paceline::ps
