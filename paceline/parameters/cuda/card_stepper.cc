#include "paceline/parameters/cuda/card_stepper.h"

#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/parameters/cuda/pieces.h"
#include "paceline/parameters/cuda/places.h"
#include "paceline/parameters/ps/board_buffer.h"
#include "paceline/parameters/ps/fused_update.h"

namespace paceline::cuda {

namespace {

template <class Value>
DevicePointer address_of(const Value* place) {
  return reinterpret_cast<DevicePointer>(place);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CardStepper>> CardStepper::create(std::shared_ptr<Card> card,
                                                                 const ps::StepPlan& plan,
                                                                 std::optional<Kept> kept) {
  PACELINE_RETURN_IF_ERROR(card->enter());
  PACELINE_ASSIGN_OR_RETURN(CardStream stream, CardStream::create(card));
  PACELINE_ASSIGN_OR_RETURN(CardStream reads, CardStream::create(card));
  std::unique_ptr<CardStepper> stepper(new CardStepper(card, std::move(stream), std::move(reads), plan));
  PACELINE_ASSIGN_OR_RETURN(CardKernels kernels, CardKernels::load(card, stepper->stream_));
  stepper->kernels_.emplace(std::move(kernels));
  const std::vector<Piece> pieces = pieces_of(plan.passes, 0, plan.layout.size());
  PACELINE_RETURN_IF_ERROR(stepper->make_state(pieces, std::move(kept)));
  PACELINE_RETURN_IF_ERROR(stepper->make_tables(pieces));
  if (ps::is_tensorwise(plan.optimizer.kind)) {
    PACELINE_ASSIGN_OR_RETURN(auto tensors,
                              CardTensors::create(card, stepper->stream_, *stepper->kernels_, plan));
    stepper->tensors_.emplace(std::move(tensors));
  }
  PACELINE_RETURN_IF_ERROR(stepper->prepare_steps());
  return stepper;
}

CardStepper::~CardStepper() { stream_.settle().IgnoreError(); }

absl::Status CardStepper::make_state(std::span<const Piece> pieces, std::optional<Kept> kept) {
  const std::int64_t floats = plan_.layout.size();
  const int streams = ps::state_streams(plan_.optimizer.kind);
  PACELINE_CHECK(!kept || !ps::is_tensorwise(plan_.optimizer.kind),
                 "a kept state of tensors that step as wholes");
  CardStateShape shape = kept ? CardStateShape::in_slots(pieces, floats, streams, kept->chunk_floats)
                              : CardStateShape::in_place(pieces, floats, streams);
  const std::uint64_t identity = kept ? kept->identity : 0;
  absl::StatusOr<CardState> state =
      kept && kept->left ? CardState::adopt(stream_, std::move(shape), identity, *std::move(kept->left))
                         : CardState::create(card_, stream_, std::move(shape), identity);
  if (!state.ok()) return state.status();
  state_ = *std::move(state);
  return absl::OkStatus();
}

absl::Status CardStepper::make_tables(std::span<const Piece> pieces) {
  const std::vector<SquaresBlock> blocks = blocks_of(plan_.blocks);
  const std::size_t groups = (blocks.size() + ps::kSquaresGroup - 1) / ps::kSquaresGroup;
  Places places;
  const std::size_t piece_place = places.add<Piece>(pieces.size());
  const std::size_t block_place = places.add<SquaresBlock>(blocks.size());
  const std::size_t number_place = places.add<ps::StepNumbers>(plan_.optimizers.size());
  const std::size_t lane_place = places.add<double>(blocks.size() * ps::kSquaresLanes);
  const std::size_t square_place = places.add<double>(blocks.size());
  const std::size_t group_place = places.add<double>(groups);
  const std::size_t total_place = places.add<double>(1);
  const std::size_t factor_place = places.add<float>(1);
  PACELINE_ASSIGN_OR_RETURN(tables_, CardMemory::create(card_, places.bytes()));
  std::byte* const base = tables_.as<std::byte>();
  update_.pieces = reinterpret_cast<const Piece*>(base + piece_place);
  update_.piece_count = static_cast<std::int32_t>(pieces.size());
  update_.numbers = reinterpret_cast<const ps::StepNumbers*>(base + number_place);
  update_.marks = state_->marks();
  squares_.blocks = reinterpret_cast<const SquaresBlock*>(base + block_place);
  squares_.block_count = static_cast<std::int32_t>(blocks.size());
  squares_.lanes = reinterpret_cast<double*>(base + lane_place);
  squares_.squares = reinterpret_cast<double*>(base + square_place);
  squares_.groups = reinterpret_cast<double*>(base + group_place);
  squares_.group_count = static_cast<std::int32_t>(groups);
  squares_.narrow_end = plan_.narrow_blocks_end;
  clip_.groups = squares_.groups;
  clip_.group_count = squares_.group_count;
  clip_.total = reinterpret_cast<double*>(base + total_place);
  clip_.factor = reinterpret_cast<float*>(base + factor_place);
  clip_.clip = plan_.optimizer.clip;
  PACELINE_RETURN_IF_ERROR(
      stream_.upload(address_of(update_.pieces), pieces.data(), pieces.size() * sizeof(Piece)));
  return stream_.upload(address_of(squares_.blocks), blocks.data(), blocks.size() * sizeof(SquaresBlock));
}

absl::Status CardStepper::prepare_steps() {
  const ps::OptimizerKind kind = plan_.optimizer.kind;
  std::vector<const char*> names;
  if (tensors_) {
    const std::span<const char* const> all = tensor_kernels(kind);
    names.assign(all.begin(), all.end());
    names.push_back(kSquaresBlocksKernel);  // goes with kSquaresLanesKernel
  } else {
    names.push_back(kernels_of(kind).step);
  }
  if (squares_.block_count > 0)
    names.insert(names.end(),
                 {kSquaresLanesKernel, kSquaresBlocksKernel, kSquaresGroupsKernel, kClipFactorKernel});
  for (const char* const name : names) PACELINE_RETURN_IF_ERROR(kernels_->find(name).status());
  PACELINE_ASSIGN_OR_RETURN(members_, CardMemory::create(card_, 1));  // the least has room for thousands
  return absl::OkStatus();
}

absl::Status CardStepper::set_state(ps::StateStreams state) { return state_->write(state); }

absl::StatusOr<ps::StateStreams> CardStepper::state(bool before) const {
  PACELINE_CHECK(!before, "a card's steps cannot be undone");
  PACELINE_RETURN_IF_ERROR(card_->enter());
  return state_->read();
}

absl::StatusOr<bool> CardStepper::begin(std::span<const float> weights,
                                        std::span<const ps::StepNumbers> numbers, std::span<float> buffer) {
  PACELINE_RETURN_IF_ERROR(stream_.clear(address_of(buffer.data()), buffer.size_bytes()));
  PACELINE_RETURN_IF_ERROR(stream_.upload(address_of(buffer.data()), weights.data(), weights.size_bytes()));
  PACELINE_RETURN_IF_ERROR(stream_.clear(address_of(update_.marks), sizeof(std::uint32_t)));
  PACELINE_RETURN_IF_ERROR(kernels_->launch_pieces(kFiniteKernel, update_.piece_count,
                                                   FiniteArguments{.values = buffer.data(),
                                                                   .pieces = update_.pieces,
                                                                   .marks = update_.marks,
                                                                   .piece_count = update_.piece_count}));
  PACELINE_RETURN_IF_ERROR(write_narrow(weights, buffer));
  if (!numbers.empty() && !ps::direction_in(plan_.layout, buffer).empty())
    PACELINE_RETURN_IF_ERROR(write_direction(numbers, buffer));
  return finite();
}

// Only the first version needs it, so the host computes it.
absl::Status CardStepper::write_narrow(std::span<const float> weights, std::span<float> buffer) {
  const ps::Bfloat16* const there = ps::narrow_in(plan_.layout, buffer);
  if (there == nullptr) return absl::OkStatus();
  std::vector<ps::Bfloat16> narrow(static_cast<std::size_t>(plan_.layout.narrow()));
  ps::narrow_copy(weights.data(), narrow.data(), plan_.layout.narrow());
  return stream_.upload(address_of(there), narrow.data(), narrow.size() * sizeof(ps::Bfloat16));
}

// Only a restart needs it, so for optimizers without a kernel for it the host computes it.
absl::Status CardStepper::write_direction(std::span<const ps::StepNumbers> numbers, std::span<float> buffer) {
  if (!tensors_) {
    PACELINE_RETURN_IF_ERROR(write_numbers(numbers));
    for (const CardState::Place& place : state_->places()) {
      PACELINE_RETURN_IF_ERROR(kernels_->launch_pieces(kernels_of(plan_.optimizer.kind).direction,
                                                       place.chunk.piece_count,
                                                       arguments(place, buffer.data(), buffer)));
    }
    return absl::OkStatus();
  }
  PACELINE_ASSIGN_OR_RETURN(ps::StateStreams streams, state(false));
  const auto floats = static_cast<std::size_t>(plan_.layout.size());
  std::vector<float> direction(floats);
  const ps::UpdateStreams here{.weights = nullptr,
                               .next_weights = nullptr,
                               .state1 = streams.front().data(),
                               .state2 = streams.back().data(),
                               .direction = direction.data()};
  for (const ps::Pass& pass : plan_.passes) {
    if (pass.kind == ps::TensorKind::kParameter)
      ps::update_direction(plan_.optimizer.kind, numbers[pass.optimizer], here, pass.begin, pass.end);
  }
  return stream_.upload(address_of(buffer.data() + floats), direction.data(), floats * sizeof(float));
}

absl::Status CardStepper::copy_constants(std::span<const float> from, std::span<float> to) {
  for (const ps::Layout::Run& run : plan_.runs) {
    if (run.kind != ps::TensorKind::kConstant) continue;
    PACELINE_RETURN_IF_ERROR(stream_.copy(address_of(to.data() + run.begin),
                                          address_of(from.data() + run.begin),
                                          static_cast<std::size_t>(run.end - run.begin) * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::Status CardStepper::write_members(const ps::Update& update) {
  members_here_.clear();
  for (const ps::Update::Member& member : update.members) {
    members_here_.push_back({member.gradient, static_cast<float>(member.weight),
                             static_cast<float>(member.share), member.narrow});
  }
  const std::size_t bytes = members_here_.size() * sizeof(MemberArgument);
  if (bytes > members_.bytes()) {
    PACELINE_RETURN_IF_ERROR(stream_.settle());
    PACELINE_ASSIGN_OR_RETURN(members_, CardMemory::create(card_, bytes));
  }
  return stream_.copy_to_card(members_.address(), members_here_.data(), bytes);
}

absl::Status CardStepper::write_numbers(std::span<const ps::StepNumbers> numbers) {
  numbers_here_.assign(numbers.begin(), numbers.end());
  return stream_.copy_to_card(address_of(update_.numbers), numbers_here_.data(), numbers.size_bytes());
}

absl::Status CardStepper::clip(const ps::Update& update) {
  SquaresArguments squares = squares_;
  squares.members = members_.as<const MemberArgument>();
  squares.member_count = static_cast<std::int32_t>(update.members.size());
  PACELINE_RETURN_IF_ERROR(
      kernels_->launch(kSquaresLanesKernel, squares.block_count * ps::kSquaresLanes, squares));
  PACELINE_RETURN_IF_ERROR(kernels_->launch(kSquaresBlocksKernel, squares.block_count, squares));
  PACELINE_RETURN_IF_ERROR(kernels_->launch(kSquaresGroupsKernel, squares.group_count, squares));
  return kernels_->launch_one(kClipFactorKernel, clip_);
}

UpdateArguments CardStepper::arguments(const CardState::Place& place, const float* latest,
                                       std::span<float> next) const {
  UpdateArguments update = update_;
  const std::span<float> direction = ps::direction_in(plan_.layout, next);
  update.pieces += place.chunk.first_piece;
  update.piece_count = place.chunk.piece_count;
  update.weights = latest;
  update.next = next.data();
  update.state1 = place.state[0];
  update.state2 = place.state[1];
  update.state1_before = place.before[0];
  update.state2_before = place.before[1];
  update.direction = direction.empty() ? nullptr : direction.data();
  update.narrow = ps::narrow_in(plan_.layout, next);
  return update;
}

absl::StatusOr<bool> CardStepper::step(const Step& step) {
  const ps::Update& update = step.update;
  PACELINE_CHECK(!update.arrival && !update.made && !update.group && !update.squares_of_all && !step.undoable,
                 "commit {} is made in a way that a card does not know", update.version);
  PACELINE_RETURN_IF_ERROR(write_members(update));
  PACELINE_RETURN_IF_ERROR(write_numbers(step.numbers));
  const bool clips = squares_.block_count > 0 && !update.of_differences;
  if (clips) PACELINE_RETURN_IF_ERROR(clip(update));
  PACELINE_RETURN_IF_ERROR(
      state_->make(update.version, step.fractions, [&](const CardState::Place& place) -> absl::Status {
        UpdateArguments all = arguments(place, step.latest.data(), step.next);
        all.members = members_.as<const MemberArgument>();
        all.member_count = static_cast<std::int32_t>(update.members.size());
        all.pull = update.of_differences ? 1.0f : ps::statistics_pull(update.fraction);
        if (clips) all.gradient_factor = clip_.factor;
        if (tensors_) return tensors_->step(all);
        return kernels_->launch_pieces(kernels_of(plan_.optimizer.kind).step, all.piece_count, all);
      }));
  return finite();
}

absl::StatusOr<bool> CardStepper::finite() const {
  std::uint32_t marks = 0;
  PACELINE_RETURN_IF_ERROR(stream_.download(&marks, address_of(update_.marks), sizeof marks));
  return (marks & kNotFinite) == 0;
}

absl::Status CardStepper::read(std::span<const float> from, std::span<float> to) const {
  PACELINE_RETURN_IF_ERROR(card_->enter());
  return reads_.download(to.data(), address_of(from.data()), from.size_bytes());
}

}  // namespace paceline::cuda
