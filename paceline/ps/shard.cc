#include "paceline/ps/shard.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/ps/look_ahead.h"
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
    // What nobody has summed so far the shard sums itself, in the same order: the same bits, and no waiting.
    const Weighted sum{piece.sum, 1.0f};
    work(piece.sum != nullptr ? std::span(&sum, 1) : gradients, begin, piece.end);
    begin = piece.end;
  }
}

std::vector<Weighted> gradients_of(const Update& update) {
  std::vector<Weighted> gradients;
  for (const Update::Member& member : update.members)
    gradients.push_back({member.gradient, static_cast<float>(member.weight)});
  return gradients;
}

}  // namespace

Shard::Shard(Layout layout, OptimizerConfig optimizer, memory::WeightWriter board, int threads,
             std::span<const ParameterGroup> groups, const std::optional<WholeModel>& whole)
    : layout_(std::move(layout)),
      optimizer_(optimizer),
      runs_(layout_.runs()),
      optimizers_{optimizer},
      passes_(passes_of(layout_, groups)),
      moving_(moving_of(layout_)),
      moving_floats_(moving_.empty() ? 0 : moving_.back().before + moving_.back().end - moving_.back().begin),
      board_(std::move(board)),
      pool_(threads) {
  const auto floats = static_cast<std::int64_t>(board_.latest().size());
  PACELINE_CHECK(floats == board_floats(layout_, false) || floats == board_floats(layout_, true),
                 "a board of {} floats for {}", floats, layout_.size());
  for (const ParameterGroup& group : groups) optimizers_.push_back(optimizer_of(optimizer, group));
  if (is_tensorwise(optimizer_.kind)) {
    const std::vector<std::optional<std::size_t>> group = groups_in(layout_, groups);
    for (std::size_t i = 0; i < group.size(); ++i) {
      const TensorSpec& tensor = layout_.tensors()[i];
      const std::int64_t end = i + 1 < group.size() ? layout_.tensors()[i + 1].offset : layout_.size();
      if (tensor.kind != TensorKind::kConstant)
        wholes_.push_back({&tensor, end, group[i] ? *group[i] + 1 : 0});
    }
  }
  if (optimizer_.clip != 0)
    blocks_ = whole ? squares_blocks(whole->layout, whole->offset) : squares_blocks(layout_, 0);
  squares_.resize(blocks_.size());
  state_.streams.assign(static_cast<std::size_t>(state_streams(optimizer_.kind)),
                        std::vector<float>(static_cast<std::size_t>(layout_.size())));
}

std::vector<Shard::Moving> Shard::moving_of(const Layout& layout) {
  std::vector<Moving> moving;
  std::int64_t before = 0;
  for (const Layout::Range& range : layout.moving()) {
    moving.push_back({range.begin, range.end, before});
    before += range.end - range.begin;
  }
  return moving;
}

void Shard::start(Version version, std::span<const float> weights) {
  PACELINE_CHECK(static_cast<std::int64_t>(weights.size()) == layout_.size(), "{} weights for {}",
                 weights.size(), layout_.size());
  const std::span<float> first = board_.next();
  std::copy(weights.begin(), weights.end(), first.begin());
  with_constants_ = {first.data()};
  finite_ = std::all_of(moving_.begin(), moving_.end(), [&](const Moving& part) {
    return all_finite(first.data() + part.begin, part.end - part.begin);
  });
  write_direction(first);
  board_.publish(version);
}

// Only of buffers that are used, so that a board takes no more memory than it needs.
std::span<float> Shard::take_buffer() {
  const std::span<float> buffer = board_.next();
  if (moving_floats_ == layout_.size() ||
      std::find(with_constants_.begin(), with_constants_.end(), buffer.data()) != with_constants_.end())
    return buffer;
  copy_constants(runs_, weights(), buffer);
  with_constants_.push_back(buffer.data());
  return buffer;
}

absl::Status Shard::restore_optimizer(OptimizerState state) {
  const bool fits = state.streams.size() == state_.streams.size() &&
                    std::all_of(state.streams.begin(), state.streams.end(), [&](const auto& stream) {
                      return static_cast<std::int64_t>(stream.size()) == layout_.size();
                    });
  if (!fits)
    return absl::InvalidArgumentError("the optimizer state is another optimizer's or another model's");
  state_ = std::move(state);
  return absl::OkStatus();
}

absl::Status Shard::check(const Update& update) const {
  if (update.version != version().next()) {
    return absl::FailedPreconditionError(
        fmt::format("commit {} came after commit {}", update.version, version()));
  }
  if (update.of_differences && optimizer_.kind != OptimizerKind::kSgd)
    return absl::InvalidArgumentError("only replicas that step with SGD can give differences of weights");
  return absl::OkStatus();
}

absl::Status Shard::apply(const Update& update) {
  if (update.version <= version()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(check(update));
  PACELINE_RETURN_IF_ERROR(make(update, [](std::int64_t, std::int64_t) {}));
  if (update.only_finite && !finite_)
    return absl::OutOfRangeError(fmt::format("version {} is not finite", update.version));
  board_.publish(update.version);
  return absl::OkStatus();
}

absl::Status Shard::prepare(const Update& update) {
  PACELINE_CHECK(!prepared_, "commit {} is prepared before {} is published", update.version, *prepared_);
  PACELINE_RETURN_IF_ERROR(check(update));
  const bool finite_before = finite_;
  before_.fractions = state_.fractions;
  before_.streams.resize(state_.streams.size());
  for (auto& stream : before_.streams) stream.resize(static_cast<std::size_t>(layout_.size()));
  remembered_.clear();
  const absl::Status made =
      make(update, [this](std::int64_t begin, std::int64_t end) { remember(begin, end); });
  if (made.ok()) {
    prepared_ = update.version;
  } else {
    take_back();
    finite_ = finite_before;
  }
  return made;
}

void Shard::publish() {
  board_.publish(*prepared_);
  prepared_.reset();
}

// A pass of its own: nothing may be written before the whole norm is known.
absl::StatusOr<double> Shard::gradient_norm(const Update& update) {
  const std::vector<Weighted> gradients = gradients_of(update);
  Arrivals arrivals(update);
  pool_.share(static_cast<std::int64_t>(blocks_.size()), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const Layout::Range& block = blocks_[static_cast<std::size_t>(i)];
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

std::vector<StepNumbers> Shard::numbers_of(double learning_rate, double fraction) const {
  std::vector<StepNumbers> numbers;
  for (const OptimizerConfig& optimizer : optimizers_) {
    numbers.push_back(step_numbers(optimizer, learning_rate, fraction, state_.fractions));
    numbers.back().direction = static_cast<float>(direction_scale(optimizer_, optimizer));
  }
  return numbers;
}

// `before_step`: called for each range before it changes, by any thread.
template <class BeforeStep>
absl::Status Shard::make(const Update& update, BeforeStep before_step) {
  float clipped = 1;
  if (optimizer_.clip > 0 && !update.of_differences) {
    PACELINE_ASSIGN_OR_RETURN(const double norm, gradient_norm(update));
    clipped = clip_factor(norm, optimizer_.clip);
  }
  state_.fractions += update.fraction;
  std::vector<StepNumbers> numbers = update.of_differences
                                         ? std::vector<StepNumbers>(optimizers_.size(), averaging_numbers())
                                         : numbers_of(update.learning_rate, update.fraction);
  for (StepNumbers& one : numbers) one.gradient = clipped;
  const std::span<float> buffer = take_buffer();
  const UpdateStreams streams = streams_into(buffer);
  const auto tell_made = [&](std::int64_t begin, std::int64_t end) {
    if (!update.made) return;
    for (std::int64_t offset = 0; offset < std::ssize(buffer); offset += layout_.size())
      update.made(buffer, offset + begin, offset + end);
  };
  if (is_tensorwise(optimizer_.kind)) return make_tensors(update, numbers, streams, before_step, tell_made);
  Arrivals arrivals(update);
  std::atomic<bool> finite = true;
  // Threads share out what moves, so that none of them has nothing but constants.
  pool_.share(moving_floats_, Layout::kAlignment, [&](std::int64_t first, std::int64_t last) {
    for (const Moving& part : moving_) {
      const std::int64_t begin = part.begin + std::max<std::int64_t>(0, first - part.before);
      const std::int64_t end = std::min(part.end, part.begin + last - part.before);
      if (begin >= end) continue;
      arrivals.each(begin, end, [&](std::int64_t from, std::int64_t to) {
        before_step(from, to);
        if (!apply_range(update, numbers, streams, from, to)) finite = false;
        tell_made(from, to);
      });
    }
  });
  finite_ = finite;
  return arrivals.status();
}

template <class BeforeStep, class TellMade>
absl::Status Shard::make_tensors(const Update& update, std::span<const StepNumbers> numbers,
                                 const UpdateStreams& streams, BeforeStep before_step, TellMade tell_made) {
  const std::vector<Weighted> gradients = gradients_of(update);
  Arrivals arrivals(update);
  std::atomic<bool> finite = true;
  pool_.share(static_cast<std::int64_t>(wholes_.size()), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const Whole& whole = wholes_[static_cast<std::size_t>(i)];
      const TensorSpec& tensor = *whole.tensor;
      const bool steps = tensor.kind == TensorKind::kParameter;
      arrivals.each(tensor.offset, whole.end, [&](std::int64_t begin, std::int64_t end) {
        before_step(begin, end);
        if (!steps) {
          if (!apply_range(update, numbers, streams, begin, end)) finite = false;
          return;
        }
        each_piece(update, gradients, begin, end, [&](auto members, std::int64_t from, std::int64_t to) {
          fused_average(members, streams.next_weights, from, to);
        });
      });
      if (!arrivals.ok()) return;
      if (steps &&
          !tensorwise_update(optimizer_.kind, numbers[whole.optimizer], tensor.shape, streams, tensor.offset))
        finite = false;
      if (steps) {
        const std::int64_t padding = tensor.offset + tensor.size;
        std::copy_n(streams.weights + padding, whole.end - padding, streams.next_weights + padding);
      }
      if (tensor.kind != TensorKind::kConstant) tell_made(tensor.offset, whole.end);
    }
  });
  finite_ = finite;
  return arrivals.status();
}

void Shard::remember(std::int64_t begin, std::int64_t end) {
  for (std::size_t i = 0; i < state_.streams.size(); ++i)
    std::copy_n(state_.streams[i].begin() + begin, end - begin, before_.streams[i].begin() + begin);
  const std::lock_guard lock(remembering_);
  remembered_.emplace_back(begin, end);
}

void Shard::take_back() {
  state_.fractions = before_.fractions;
  for (const auto& [begin, end] : remembered_) {
    for (std::size_t i = 0; i < state_.streams.size(); ++i)
      std::copy_n(before_.streams[i].begin() + begin, end - begin, state_.streams[i].begin() + begin);
  }
}

UpdateStreams Shard::streams_into(std::span<float> buffer) {
  const std::span<float> direction = buffer.subspan(weights_of(buffer).size());
  return {.weights = weights().data(),
          .next_weights = buffer.data(),
          .state1 = state_.streams[0].data(),
          .state2 = state_.streams.back().data(),
          .direction = direction.empty() ? nullptr : direction.data()};
}

// Statistics and constants do not step: nobody writes their direction, and a board's memory is 0 at first.
void Shard::write_direction(std::span<float> buffer) {
  const UpdateStreams streams = streams_into(buffer);
  if (streams.direction == nullptr || state_.fractions == 0) return;  // 0: no update yet
  const std::vector<StepNumbers> numbers = numbers_of(0, 1);
  for (const Pass& pass : passes_) {
    if (pass.kind == TensorKind::kParameter)
      update_direction(optimizer_.kind, numbers[pass.optimizer], streams, pass.begin, pass.end);
  }
}

bool Shard::apply_range(const Update& update, std::span<const StepNumbers> numbers,
                        const UpdateStreams& streams, std::int64_t begin, std::int64_t end) {
  const std::vector<Weighted> gradients = gradients_of(update);
  std::vector<Weighted> statistics;
  for (const Update::Member& member : update.members)
    statistics.push_back({member.gradient, static_cast<float>(member.share)});
  bool finite = true;
  for (const Pass& pass : passes_) {
    const std::int64_t from = std::max(begin, pass.begin);
    const std::int64_t to = std::min(end, pass.end);
    if (from >= to || pass.kind == TensorKind::kConstant) continue;
    if (pass.kind == TensorKind::kParameter) {
      each_piece(update, gradients, from, to, [&](auto members, std::int64_t first, std::int64_t last) {
        finite =
            fused_update(optimizer_.kind, numbers[pass.optimizer], members, streams, first, last) && finite;
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
