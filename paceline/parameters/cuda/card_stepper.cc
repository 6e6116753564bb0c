#include "paceline/parameters/cuda/card_stepper.h"

#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/parameters/cuda/pieces.h"
#include "paceline/parameters/cuda/places.h"
#include "paceline/parameters/ps/fused_update.h"

namespace paceline::cuda {

namespace {

template <class Value>
DevicePointer address_of(const Value* place) {
  return reinterpret_cast<DevicePointer>(place);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CardStepper>> CardStepper::create(std::shared_ptr<Card> card,
                                                                 const ps::StepPlan& plan) {
  PACELINE_RETURN_IF_ERROR(card->enter());
  PACELINE_ASSIGN_OR_RETURN(CardStream stream, CardStream::create(card));
  std::unique_ptr<CardStepper> stepper(new CardStepper(card, std::move(stream), plan));
  PACELINE_ASSIGN_OR_RETURN(CardKernels kernels, CardKernels::load(card, stepper->stream_));
  stepper->kernels_.emplace(std::move(kernels));
  PACELINE_RETURN_IF_ERROR(stepper->make_state());
  PACELINE_RETURN_IF_ERROR(stepper->make_tables());
  if (ps::is_tensorwise(plan.optimizer.kind)) {
    PACELINE_ASSIGN_OR_RETURN(auto tensors,
                              CardTensors::create(card, stepper->stream_, *stepper->kernels_, plan));
    stepper->tensors_.emplace(std::move(tensors));
  }
  return stepper;
}

CardStepper::~CardStepper() { stream_.settle().IgnoreError(); }

absl::Status CardStepper::make_state() {
  const auto floats = static_cast<std::size_t>(plan_.layout.size());
  const auto streams = static_cast<std::size_t>(ps::state_streams(plan_.optimizer.kind));
  PACELINE_ASSIGN_OR_RETURN(state_, CardMemory::create(card_, streams * floats * sizeof(float)));
  return stream_.clear(state_.address(), state_.bytes());
}

absl::Status CardStepper::make_tables() {
  const std::vector<Piece> pieces = pieces_of(plan_.passes, 0, plan_.layout.size());
  const std::vector<SquaresBlock> blocks = blocks_of(plan_.blocks);
  const std::size_t groups = (blocks.size() + ps::kSquaresGroup - 1) / ps::kSquaresGroup;
  Places places;
  const std::size_t piece_place = places.add<Piece>(pieces.size());
  const std::size_t block_place = places.add<SquaresBlock>(blocks.size());
  const std::size_t number_place = places.add<ps::StepNumbers>(plan_.optimizers.size());
  const std::size_t mark_place = places.add<std::uint32_t>(1);
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
  update_.marks = reinterpret_cast<std::uint32_t*>(base + mark_place);
  squares_.blocks = reinterpret_cast<const SquaresBlock*>(base + block_place);
  squares_.block_count = static_cast<std::int32_t>(blocks.size());
  squares_.lanes = reinterpret_cast<double*>(base + lane_place);
  squares_.squares = reinterpret_cast<double*>(base + square_place);
  squares_.groups = reinterpret_cast<double*>(base + group_place);
  squares_.group_count = static_cast<std::int32_t>(groups);
  clip_.groups = squares_.groups;
  clip_.group_count = squares_.group_count;
  clip_.total = reinterpret_cast<double*>(base + total_place);
  clip_.factor = reinterpret_cast<float*>(base + factor_place);
  clip_.clip = plan_.optimizer.clip;
  PACELINE_RETURN_IF_ERROR(
      stream_.upload(address_of(update_.pieces), pieces.data(), pieces.size() * sizeof(Piece)));
  return stream_.upload(address_of(squares_.blocks), blocks.data(), blocks.size() * sizeof(SquaresBlock));
}

absl::Status CardStepper::set_state(ps::StateStreams state) {
  DevicePointer at = state_.address();
  for (const std::vector<float>& stream : state) {
    PACELINE_RETURN_IF_ERROR(stream_.upload(at, stream.data(), stream.size() * sizeof(float)));
    at += stream.size() * sizeof(float);
  }
  return absl::OkStatus();
}

absl::StatusOr<ps::StateStreams> CardStepper::state(bool before) const {
  PACELINE_CHECK(!before, "a card's steps cannot be undone");
  ps::StateStreams state(static_cast<std::size_t>(ps::state_streams(plan_.optimizer.kind)),
                         std::vector<float>(static_cast<std::size_t>(plan_.layout.size())));
  PACELINE_RETURN_IF_ERROR(card_->enter());
  DevicePointer at = state_.address();
  for (std::vector<float>& stream : state) {
    PACELINE_RETURN_IF_ERROR(stream_.download(stream.data(), at, stream.size() * sizeof(float)));
    at += stream.size() * sizeof(float);
  }
  return state;
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
  if (!numbers.empty() && buffer.size() > weights.size())
    PACELINE_RETURN_IF_ERROR(write_direction(numbers, buffer));
  return finite();
}

// Only a restart needs it, so for optimizers without a kernel for it the host computes it.
absl::Status CardStepper::write_direction(std::span<const ps::StepNumbers> numbers, std::span<float> buffer) {
  if (!tensors_) {
    PACELINE_RETURN_IF_ERROR(write_numbers(numbers));
    return kernels_->launch_pieces(kernels_of(plan_.optimizer.kind).direction, update_.piece_count,
                                   arguments(buffer.data(), buffer));
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
    members_here_.push_back(
        {member.gradient, static_cast<float>(member.weight), static_cast<float>(member.share)});
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

UpdateArguments CardStepper::arguments(const float* latest, std::span<float> next) const {
  UpdateArguments update = update_;
  const auto floats = static_cast<std::size_t>(plan_.layout.size());
  update.weights = latest;
  update.next = next.data();
  update.state1 = state_.as<float>();
  update.state2 = ps::state_streams(plan_.optimizer.kind) > 1 ? state_.as<float>() + floats : nullptr;
  update.direction = next.size() > floats ? next.data() + floats : nullptr;
  return update;
}

absl::StatusOr<bool> CardStepper::step(const Step& step) {
  const ps::Update& update = step.update;
  PACELINE_CHECK(!update.arrival && !update.made && !update.group && !update.squares_of_all && !step.undoable,
                 "commit {} is made in a way that a card does not know", update.version);
  PACELINE_RETURN_IF_ERROR(write_members(update));
  PACELINE_RETURN_IF_ERROR(write_numbers(step.numbers));
  PACELINE_RETURN_IF_ERROR(stream_.clear(address_of(update_.marks), sizeof(std::uint32_t)));
  UpdateArguments all = arguments(step.latest.data(), step.next);
  all.members = members_.as<const MemberArgument>();
  all.member_count = static_cast<std::int32_t>(update.members.size());
  all.pull = update.of_differences ? 1.0f : ps::statistics_pull(update.fraction);
  if (squares_.block_count > 0 && !update.of_differences) {
    PACELINE_RETURN_IF_ERROR(clip(update));
    all.gradient_factor = clip_.factor;
  }
  if (tensors_) {
    PACELINE_RETURN_IF_ERROR(tensors_->step(all));
  } else {
    PACELINE_RETURN_IF_ERROR(
        kernels_->launch_pieces(kernels_of(plan_.optimizer.kind).step, all.piece_count, all));
  }
  return finite();
}

absl::StatusOr<bool> CardStepper::finite() const {
  std::uint32_t marks = 0;
  PACELINE_RETURN_IF_ERROR(stream_.download(&marks, address_of(update_.marks), sizeof marks));
  return (marks & kNotFinite) == 0;
}

absl::Status CardStepper::read(std::span<const float> from, std::span<float> to) const {
  PACELINE_RETURN_IF_ERROR(card_->enter());
  return stream_.download(to.data(), address_of(from.data()), from.size_bytes());
}

}  // namespace paceline::cuda
