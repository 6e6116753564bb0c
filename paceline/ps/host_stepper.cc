#include "paceline/ps/host_stepper.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/ps/tensorwise.h"

namespace paceline::ps {

namespace {

// Goes through a range as far as all members' gradients have come.
class Arrivals {
 public:
  explicit Arrivals(const Update& update) : update_(update) {}

  // Any thread.
  template <class Work>
  void each(std::int64_t begin, std::int64_t end, Work work) {
    if (!update_.arrival) return work(begin, end);
    while (begin < end) {
      const std::int64_t block_end = (begin / update_.arrival_block + 1) * update_.arrival_block;
      const std::int64_t to = std::min(end, block_end);
      if (const absl::Status status = update_.arrival(begin, to); !status.ok()) return note(status);
      work(begin, to);
      begin = to;
    }
  }

  const absl::Status& status() const { return status_; }
  // Any thread.
  bool ok() {
    const std::lock_guard lock(mutex_);
    return status_.ok();
  }

 private:
  void note(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    status_.Update(status);
  }

  const Update& update_;
  std::mutex mutex_;
  absl::Status status_;
};

// Calls work(gradients, from, to) for parts of [begin, end), with the members' gradients or with the sum of
// them where the members have it.
template <class Work>
void each_piece(const Update& update, std::span<const Weighted> gradients, std::int64_t begin,
                std::int64_t end, Work work) {
  if (!update.group) return work(gradients, begin, end);
  while (begin < end) {
    const GroupSum::Piece piece = update.group->piece(begin, end);
    // The shard itself sums what no member has summed so far, in the same order: the same bits, and no
    // waiting.
    const Weighted sum{piece.sum, 1.0f};
    work(piece.sum != nullptr ? std::span(&sum, 1) : gradients, begin, piece.end);
    begin = piece.end;
  }
}

void tell_made(const Stepper::Step& step, std::int64_t layout_floats, std::int64_t begin, std::int64_t end) {
  if (!step.update.made) return;
  for (std::int64_t offset = 0; offset < std::ssize(step.next); offset += layout_floats)
    step.update.made(step.next, offset + begin, offset + end);
}

std::vector<Weighted> gradients_of(const Update& update) {
  std::vector<Weighted> gradients;
  for (const Update::Member& member : update.members)
    gradients.push_back({member.gradient, static_cast<float>(member.weight)});
  return gradients;
}

}  // namespace

HostStepper::HostStepper(const StepPlan& plan, int threads, std::optional<KeptState> kept)
    : plan_(plan), kept_(std::move(kept)), squares_(plan.blocks.size()), pool_(threads) {
  if (kept_) {
    state_ = kept_->streams();
    return;
  }
  own_.assign(static_cast<std::size_t>(state_streams(plan.optimizer.kind)),
              std::vector<float>(static_cast<std::size_t>(plan.layout.size())));
  state_.assign(own_.begin(), own_.end());
}

absl::Status HostStepper::set_state(StateStreams state) {
  for (std::size_t i = 0; i < state_.size(); ++i)
    std::copy(state[i].begin(), state[i].end(), state_[i].begin());
  return absl::OkStatus();
}

absl::StatusOr<StateStreams> HostStepper::state(bool before) const {
  if (before) return before_;
  StateStreams streams;
  for (const std::span<const float> stream : state_) streams.emplace_back(stream.begin(), stream.end());
  return streams;
}

void HostStepper::start_at(Version version, double fractions) {
  if (kept_) kept_->start(version, fractions);
}

absl::StatusOr<KeptState::Left> HostStepper::take_up(Version version) {
  if (!kept_) return Stepper::take_up(version);
  return kept_->take_up(version);
}

absl::StatusOr<bool> HostStepper::begin(std::span<const float> weights, std::span<const StepNumbers> numbers,
                                        std::span<float> buffer) {
  std::copy(weights.begin(), weights.end(), buffer.begin());
  const UpdateStreams streams = streams_of(buffer, buffer);
  // Statistics and constants do not step: nobody writes their direction, and a board's memory is 0 at first.
  if (streams.direction != nullptr && !numbers.empty()) {
    for (const Pass& pass : plan_.passes) {
      if (pass.kind == TensorKind::kParameter)
        update_direction(plan_.optimizer.kind, numbers[pass.optimizer], streams, pass.begin, pass.end);
    }
  }
  return std::all_of(plan_.moving.begin(), plan_.moving.end(), [&](const StepPlan::Moving& part) {
    return all_finite(buffer.data() + part.begin, part.end - part.begin);
  });
}

absl::Status HostStepper::copy_constants(std::span<const float> from, std::span<float> to) {
  ps::copy_constants(plan_.runs, from, to);
  return absl::OkStatus();
}

absl::Status HostStepper::read(std::span<const float> from, std::span<float> to) const {
  std::copy(from.begin(), from.end(), to.begin());
  return absl::OkStatus();
}

UpdateStreams HostStepper::streams_of(std::span<const float> latest, std::span<float> next) {
  const std::span<float> direction = next.subspan(static_cast<std::size_t>(plan_.layout.size()));
  return {.weights = latest.data(),
          .next_weights = next.data(),
          .state1 = state_.front().data(),
          .state2 = state_.back().data(),
          .direction = direction.empty() ? nullptr : direction.data()};
}

// A pass of its own: nothing may be written before the whole norm is known.
absl::StatusOr<double> HostStepper::gradient_norm(const Update& update) {
  const std::vector<Weighted> gradients = gradients_of(update);
  Arrivals arrivals(update);
  pool_.share(static_cast<std::int64_t>(plan_.blocks.size()), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const Layout::Range& block = plan_.blocks[static_cast<std::size_t>(i)];
      // The whole block at once: the sum must not depend on the parts in which gradients come.
      arrivals.each(block.begin, block.end, [](std::int64_t, std::int64_t) {});
      if (!arrivals.ok()) return;
      squares_[static_cast<std::size_t>(i)] = sum_of_squares(gradients, block.begin, block.end);
    }
  });
  PACELINE_RETURN_IF_ERROR(arrivals.status());
  double squares = sum_of_blocks(squares_);
  if (update.squares_of_all) {
    PACELINE_ASSIGN_OR_RETURN(squares, update.squares_of_all(squares));
  }
  return std::sqrt(squares);
}

absl::StatusOr<bool> HostStepper::step(const Step& step) {
  std::vector<StepNumbers> numbers(step.numbers.begin(), step.numbers.end());
  if (plan_.optimizer.clip > 0 && !step.update.of_differences) {
    PACELINE_ASSIGN_OR_RETURN(const double norm, gradient_norm(step.update));
    for (StepNumbers& one : numbers) one.gradient = clip_factor(norm, plan_.optimizer.clip);
  }
  if (kept_) {
    // A kept state is of one host, which keeps no copies and has all gradients.
    PACELINE_CHECK(!step.undoable && !step.update.arrival, "version {} is undoable", step.update.version);
    kept_->begin(step.update.version, step.fractions);
  }
  if (step.undoable) {
    before_.resize(state_.size());
    for (auto& stream : before_) stream.resize(static_cast<std::size_t>(plan_.layout.size()));
  }
  remembered_.clear();
  auto made = make(step, numbers);
  if (!made.ok() && step.undoable) undo();
  return made;
}

absl::StatusOr<bool> HostStepper::make(const Step& step, std::span<const StepNumbers> numbers) {
  const Update& update = step.update;
  const UpdateStreams streams = streams_of(step.latest, step.next);
  if (is_tensorwise(plan_.optimizer.kind)) return make_tensors(step, numbers, streams);
  if (kept_) return make_pieces(step, numbers, streams);
  Arrivals arrivals(update);
  std::atomic<bool> finite = true;
  // Threads share out what moves, so that none of them has nothing but constants.
  pool_.share(plan_.moving_floats, Layout::kAlignment, [&](std::int64_t first, std::int64_t last) {
    for (const StepPlan::Moving& part : plan_.moving) {
      const std::int64_t begin = part.begin + std::max<std::int64_t>(0, first - part.before);
      const std::int64_t end = std::min(part.end, part.begin + last - part.before);
      if (begin >= end) continue;
      arrivals.each(begin, end, [&](std::int64_t from, std::int64_t to) {
        remember(step, from, to);
        if (!apply_range(update, numbers, streams, from, to)) finite = false;
        tell_made(step, plan_.layout.size(), from, to);
      });
    }
  });
  PACELINE_RETURN_IF_ERROR(arrivals.status());
  return finite.load();
}

bool HostStepper::make_pieces(const Step& step, std::span<const StepNumbers> numbers,
                              const UpdateStreams& streams) {
  const Version version = step.update.version;
  const std::vector<Layout::Range>& pieces = kept_->pieces();
  std::atomic<int> threads = 0;
  pool_.share(std::ssize(pieces), 1, [&](std::int64_t first, std::int64_t last) {
    const int thread = threads++;
    for (auto index = static_cast<std::size_t>(first); index < static_cast<std::size_t>(last); ++index) {
      if (kept_->has(index, version)) continue;
      const auto& [begin, end] = pieces[index];
      kept_->save(index, thread);
      const bool finite = apply_range(step.update, numbers, streams, begin, end);
      kept_->made(index, version, finite);
      tell_made(step, plan_.layout.size(), begin, end);
    }
  });
  return kept_->finite(version);
}

absl::StatusOr<bool> HostStepper::make_tensors(const Step& step, std::span<const StepNumbers> numbers,
                                               const UpdateStreams& streams) {
  const Update& update = step.update;
  const std::vector<Weighted> gradients = gradients_of(update);
  Arrivals arrivals(update);
  std::atomic<bool> finite = true;
  std::atomic<int> threads = 0;
  pool_.share(static_cast<std::int64_t>(plan_.wholes.size()), 1, [&](std::int64_t first, std::int64_t last) {
    const int thread = threads++;
    for (std::int64_t i = first; i < last; ++i) {
      const auto index = static_cast<std::size_t>(i);
      if (kept_ && kept_->has(index, update.version)) continue;
      if (kept_) kept_->save(index, thread);
      bool tensor_finite = true;
      const StepPlan::Whole& whole = plan_.wholes[index];
      const TensorSpec& tensor = whole.tensor;
      const bool steps = tensor.kind == TensorKind::kParameter;
      arrivals.each(tensor.offset, whole.end, [&](std::int64_t begin, std::int64_t end) {
        remember(step, begin, end);
        if (!steps) {
          tensor_finite = apply_range(update, numbers, streams, begin, end) && tensor_finite;
          return;
        }
        each_piece(update, gradients, begin, end, [&](auto members, std::int64_t from, std::int64_t to) {
          fused_average(members, streams.next_weights, from, to);
        });
      });
      if (!arrivals.ok()) return;
      if (steps) {
        tensor_finite = tensorwise_update(plan_.optimizer.kind, numbers[whole.optimizer], tensor.shape,
                                          streams, tensor.offset);
        const std::int64_t padding = tensor.offset + tensor.size;
        std::copy_n(streams.weights + padding, whole.end - padding, streams.next_weights + padding);
      }
      if (!tensor_finite) finite = false;
      if (kept_) kept_->made(index, update.version, tensor_finite);
      if (tensor.kind != TensorKind::kConstant)
        tell_made(step, plan_.layout.size(), tensor.offset, whole.end);
    }
  });
  PACELINE_RETURN_IF_ERROR(arrivals.status());
  return kept_ ? kept_->finite(update.version) : finite.load();
}

void HostStepper::remember(const Step& step, std::int64_t begin, std::int64_t end) {
  if (!step.undoable) return;
  for (std::size_t i = 0; i < state_.size(); ++i)
    std::copy_n(state_[i].begin() + begin, end - begin, before_[i].begin() + begin);
  const std::lock_guard lock(remembering_);
  remembered_.emplace_back(begin, end);
}

void HostStepper::undo() {
  for (const auto& [begin, end] : remembered_) {
    for (std::size_t i = 0; i < state_.size(); ++i)
      std::copy_n(before_[i].begin() + begin, end - begin, state_[i].begin() + begin);
  }
}

bool HostStepper::apply_range(const Update& update, std::span<const StepNumbers> numbers,
                              const UpdateStreams& streams, std::int64_t begin, std::int64_t end) const {
  const std::vector<Weighted> gradients = gradients_of(update);
  std::vector<Weighted> statistics;
  for (const Update::Member& member : update.members)
    statistics.push_back({member.gradient, static_cast<float>(member.share)});
  bool finite = true;
  for (const Pass& pass : plan_.passes) {
    const std::int64_t from = std::max(begin, pass.begin);
    const std::int64_t to = std::min(end, pass.end);
    if (from >= to || pass.kind == TensorKind::kConstant) continue;
    if (pass.kind == TensorKind::kParameter) {
      each_piece(update, gradients, from, to, [&](auto members, std::int64_t first, std::int64_t last) {
        finite = fused_update(plan_.optimizer.kind, numbers[pass.optimizer], members, streams, first, last) &&
                 finite;
      });
    } else {
      fused_average(statistics, streams.next_weights, from, to);
      const float pull = update.of_differences ? 1.0f : statistics_pull(update.fraction);
      if (pull != 1) pull_part_way(streams.weights, pull, streams.next_weights, from, to);
      finite = all_finite(streams.next_weights + from, to - from) && finite;
    }
  }
  return finite;
}

}  // namespace paceline::ps
