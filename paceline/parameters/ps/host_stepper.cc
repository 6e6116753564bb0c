#include "paceline/parameters/ps/host_stepper.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/parameters/ps/board_buffer.h"
#include "paceline/parameters/ps/tensorwise.h"

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

// Calls work(pass, from, to) for the parts of [begin, end).
template <class Work>
void each_pass(const StepPlan& plan, std::int64_t begin, std::int64_t end, Work work) {
  auto pass = std::partition_point(plan.passes.begin(), plan.passes.end(),
                                   [&](const Pass& one) { return one.end <= begin; });
  for (; pass != plan.passes.end() && pass->begin < end; ++pass)
    work(*pass, std::max(begin, pass->begin), std::min(end, pass->end));
}

// Takes the state of what does not step along to the next version.
void copy_state(const UpdateStreams& streams, std::int64_t begin, std::int64_t end) {
  if (streams.before1 == nullptr || streams.before1 == streams.state1) return;
  begin -= streams.state_begin;
  end -= streams.state_begin;
  std::copy(streams.before1 + begin, streams.before1 + end, streams.state1 + begin);
  std::copy(streams.before2 + begin, streams.before2 + end, streams.state2 + begin);
}

// The streams of a pass: only what is narrow is written as bfloat16 too.
UpdateStreams of_pass(const Pass& pass, UpdateStreams streams) {
  if (!pass.narrow) streams.narrow = nullptr;
  return streams;
}

void tell_made(const Stepper::Step& step, std::int64_t layout_floats, std::int64_t begin, std::int64_t end) {
  if (!step.update.made) return;
  PACELINE_CHECK(step.next.size() % static_cast<std::size_t>(layout_floats) == 0,
                 "narrow tensors of a shard whose parts are told of");
  for (std::int64_t offset = 0; offset < std::ssize(step.next); offset += layout_floats)
    step.update.made(step.next, offset + begin, offset + end);
}

}  // namespace

// The members' parts in the sums of gradients and of statistics.
struct HostStepper::Members {
  explicit Members(const Update& update) {
    for (const Update::Member& member : update.members) {
      gradients.push_back({member.gradient, static_cast<float>(member.weight)});
      narrow.push_back({nullptr, static_cast<float>(member.weight), member.narrow});
      statistics.push_back({member.gradient, static_cast<float>(member.share)});
    }
  }
  std::span<const Weighted> of(bool narrow_ones) const { return narrow_ones ? narrow : gradients; }

  std::vector<Weighted> gradients, narrow, statistics;
};

// The gradients for ranges that ascend. Asking for a member's sum costs as much as a tenth of a small range, so one
// answer serves all ranges of what the member publishes at once.
class HostStepper::Ascending {
 public:
  Ascending(const Members& members, const Update& update) : members_(members), update_(update) {}

  // Nothing if parts of [begin, end) differ in this. Requires: the range is in this pass.
  std::optional<std::span<const Weighted>> in(const Pass& pass, std::int64_t begin, std::int64_t end) {
    const std::span<const Weighted> members = members_.of(pass.narrow);
    if (!update_.group) return members;
    if (begin >= known_.end) known_ = update_.group->piece(begin, std::numeric_limits<std::int64_t>::max());
    sum_.values = known_.sum;
    if (end > known_.end) return std::nullopt;
    return known_.sum != nullptr ? std::span(&sum_, 1) : members;
  }

 private:
  const Members& members_;
  const Update& update_;
  GroupSum::Piece known_{0, nullptr};
  Weighted sum_{nullptr, 1.0f};
};

HostStepper::HostStepper(const StepPlan& plan, int threads, std::optional<KeptState> kept)
    : plan_(plan), kept_(std::move(kept)), squares_(plan.blocks.size()), pool_(threads) {
  if (kept_) return;
  own_.assign(static_cast<std::size_t>(state_streams(plan.optimizer.kind)),
              std::vector<float>(static_cast<std::size_t>(plan.layout.size())));
}

std::vector<KeptState::Place> HostStepper::places() {
  if (kept_) return kept_->places();
  KeptState::Place all{.piece = 0, .range = {0, plan_.layout.size()}};
  for (std::size_t i = 0; i < own_.size(); ++i) all.before[i] = all.state[i] = own_[i].data();
  return {all};
}

absl::Status HostStepper::set_state(StateStreams state) {
  for (const KeptState::Place& place : places()) {
    const auto& [begin, end] = place.range;
    for (std::size_t i = 0; i < state.size(); ++i)
      std::copy(state[i].begin() + begin, state[i].begin() + end, place.before[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<StateStreams> HostStepper::state(bool before) const {
  if (before) return before_;
  if (!kept_) return own_;
  StateStreams streams(static_cast<std::size_t>(state_streams(plan_.optimizer.kind)),
                       std::vector<float>(static_cast<std::size_t>(plan_.layout.size())));
  for (const KeptState::Place& place : kept_->places()) {
    const auto& [begin, end] = place.range;
    for (std::size_t i = 0; i < streams.size(); ++i)
      std::copy_n(place.before[i], end - begin, streams[i].begin() + begin);
  }
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
  if (streams.narrow != nullptr) narrow_copy(weights.data(), streams.narrow, plan_.layout.narrow());
  // Statistics and constants do not step: nobody writes their direction, and a board's memory is 0 at first.
  if (streams.direction != nullptr && !numbers.empty()) {
    for (const KeptState::Place& place : places()) {
      UpdateStreams there = at(place, streams);
      there.state1 = place.before[0];
      there.state2 = place.before[1];
      each_pass(plan_, place.range.begin, place.range.end,
                [&](const Pass& pass, std::int64_t from, std::int64_t to) {
                  if (pass.kind == TensorKind::kParameter)
                    update_direction(plan_.optimizer.kind, numbers[pass.optimizer], there, from, to);
                });
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

// A kept state has no place of its own for a whole stream: at() gives the place of a piece.
UpdateStreams HostStepper::streams_of(std::span<const float> latest, std::span<float> next) {
  const std::span<float> direction = direction_in(plan_.layout, next);
  return {.weights = latest.data(),
          .next_weights = next.data(),
          .state1 = kept_ ? nullptr : own_.front().data(),
          .state2 = kept_ ? nullptr : own_.back().data(),
          .direction = direction.empty() ? nullptr : direction.data(),
          .narrow = narrow_in(plan_.layout, next)};
}

UpdateStreams HostStepper::at(const KeptState::Place& place, UpdateStreams streams) {
  const bool one = place.state[1] == nullptr;
  streams.state1 = place.state[0];
  streams.state2 = place.state[one ? 0 : 1];
  streams.before1 = place.before[0];
  streams.before2 = place.before[one ? 0 : 1];
  streams.state_begin = place.range.begin;
  return streams;
}

// A pass of its own: nothing may be written before the whole norm is known.
absl::StatusOr<double> HostStepper::gradient_norm(const Update& update) {
  const Members members(update);
  Arrivals arrivals(update);
  pool_.share(static_cast<std::int64_t>(plan_.blocks.size()), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const Layout::Range& block = plan_.blocks[static_cast<std::size_t>(i)];
      // The whole block at once: the sum must not depend on the parts in which gradients come.
      arrivals.each(block.begin, block.end, [](std::int64_t, std::int64_t) {});
      if (!arrivals.ok()) return;
      squares_[static_cast<std::size_t>(i)] =
          sum_of_squares(members.of(block.begin < plan_.narrow_blocks_end), block.begin, block.end);
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
    before_.resize(own_.size());
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
  if (kept_) return make_pieces(step, numbers, streams);
  if (is_tensorwise(plan_.optimizer.kind)) return make_tensors(step, numbers, streams);
  const Members members(update);
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
        if (!apply_range(members, update, numbers, streams, from, to)) finite = false;
        tell_made(step, plan_.layout.size(), from, to);
      });
    }
  });
  PACELINE_RETURN_IF_ERROR(arrivals.status());
  return finite.load();
}

bool HostStepper::make_pieces(const Step& step, std::span<const StepNumbers> numbers,
                              const UpdateStreams& streams) {
  const Members members(step.update);
  pool_.share(static_cast<std::int64_t>(kept_->chains()), 1, [&](std::int64_t first, std::int64_t last) {
    for (auto chain = static_cast<std::size_t>(first); chain < static_cast<std::size_t>(last); ++chain)
      make_chain(chain, members, step, numbers, streams);
  });
  return kept_->finite(step.update.version);
}

// Pieces are small, so the most frequent kind of piece, whose floats all step alike, takes a short way.
void HostStepper::make_chain(std::size_t chain, const Members& members, const Step& step,
                             std::span<const StepNumbers> numbers, const UpdateStreams& streams) {
  const OptimizerKind kind = plan_.optimizer.kind;
  Ascending gradients(members, step.update);
  auto pass = plan_.passes.begin();
  KeptState::Walk walk = kept_->walk(chain, step.update.version);
  while (const KeptState::Place* const place = walk.next()) {
    const UpdateStreams there = at(*place, streams);
    const auto& [begin, end] = place->range;
    while (pass->end <= begin) ++pass;
    const bool alike = pass->kind == TensorKind::kParameter && end <= pass->end;
    const auto some = alike ? gradients.in(*pass, begin, end) : std::nullopt;
    const bool finite =
        some ? fused_update(kind, numbers[pass->optimizer], *some, of_pass(*pass, there), begin, end)
             : apply_range(members, step.update, numbers, there, begin, end);
    tell_made(step, plan_.layout.size(), begin, end);
    walk.made(finite);
  }
}

absl::StatusOr<bool> HostStepper::make_tensors(const Step& step, std::span<const StepNumbers> numbers,
                                               const UpdateStreams& streams) {
  const Update& update = step.update;
  const Members members(update);
  Arrivals arrivals(update);
  std::atomic<bool> finite = true;
  pool_.share(static_cast<std::int64_t>(plan_.wholes.size()), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const StepPlan::Whole& whole = plan_.wholes[static_cast<std::size_t>(i)];
      const TensorSpec& tensor = whole.tensor;
      const bool steps = tensor.kind == TensorKind::kParameter;
      arrivals.each(tensor.offset, whole.end, [&](std::int64_t begin, std::int64_t end) {
        remember(step, begin, end);
        if (!steps) {
          if (!apply_range(members, update, numbers, streams, begin, end)) finite = false;
          return;
        }
        each_piece(update, members.gradients, begin, end, [&](auto some, std::int64_t from, std::int64_t to) {
          fused_average(some, streams.next_weights, from, to);
        });
      });
      if (!arrivals.ok()) return;
      if (steps && !tensorwise_update(plan_.optimizer.kind, numbers[whole.optimizer], tensor.shape, streams,
                                      tensor.offset))
        finite = false;
      if (steps) {
        const std::int64_t padding = tensor.offset + tensor.size;
        std::copy_n(streams.weights + padding, whole.end - padding, streams.next_weights + padding);
      }
      if (tensor.kind != TensorKind::kConstant)
        tell_made(step, plan_.layout.size(), tensor.offset, whole.end);
    }
  });
  PACELINE_RETURN_IF_ERROR(arrivals.status());
  return finite.load();
}

void HostStepper::remember(const Step& step, std::int64_t begin, std::int64_t end) {
  if (!step.undoable) return;
  for (std::size_t i = 0; i < own_.size(); ++i)
    std::copy_n(own_[i].begin() + begin, end - begin, before_[i].begin() + begin);
  const std::lock_guard lock(remembering_);
  remembered_.emplace_back(begin, end);
}

void HostStepper::undo() {
  for (const auto& [begin, end] : remembered_) {
    for (std::size_t i = 0; i < own_.size(); ++i)
      std::copy_n(before_[i].begin() + begin, end - begin, own_[i].begin() + begin);
  }
}

bool HostStepper::apply_range(const Members& members, const Update& update,
                              std::span<const StepNumbers> numbers, const UpdateStreams& streams,
                              std::int64_t begin, std::int64_t end) const {
  bool finite = true;
  each_pass(plan_, begin, end, [&](const Pass& pass, std::int64_t from, std::int64_t to) {
    if (pass.kind == TensorKind::kParameter) {
      const UpdateStreams there = of_pass(pass, streams);
      each_piece(
          update, members.of(pass.narrow), from, to, [&](auto some, std::int64_t first, std::int64_t last) {
            finite = fused_update(plan_.optimizer.kind, numbers[pass.optimizer], some, there, first, last) &&
                     finite;
          });
      return;
    }
    copy_state(streams, from, to);
    if (pass.kind == TensorKind::kStatistic) {
      average_statistics(members.statistics, streams.next_weights, from, to);
      const float pull = update.of_differences ? 1.0f : statistics_pull(update.fraction);
      if (pull != 1) pull_part_way(streams.weights, pull, streams.next_weights, from, to);
      finite = all_finite(streams.next_weights + from, to - from) && finite;
    }
  });
  return finite;
}

}  // namespace paceline::ps
