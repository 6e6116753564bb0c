#include "paceline/cuda/card_stepper.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/cuda/kernels.h"
#include "paceline/cuda/pieces.h"

namespace paceline::cuda {

namespace {

// More blocks of threads than a card runs at a time gain nothing, because each takes several pieces.
constexpr unsigned kMostBlocks = 4096;

DevicePointer address_of(const float* place) { return reinterpret_cast<DevicePointer>(place); }

// Places one after the other, each where every type may lie.
class Places {
 public:
  template <class Value>
  std::size_t add(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += (count * sizeof(Value) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::size_t bytes_ = 0;
};

unsigned blocks_for(std::int32_t count, unsigned threads) {
  return std::clamp((static_cast<unsigned>(count) + threads - 1) / threads, 1u, kMostBlocks);
}

}  // namespace

absl::Status CardStepper::can_step(const ps::OptimizerConfig& optimizer) {
  if (!ps::is_tensorwise(optimizer.kind)) return absl::OkStatus();
  return absl::UnimplementedError("LARS, LAMB and Adafactor step in the host's memory only");
}

absl::StatusOr<std::unique_ptr<CardStepper>> CardStepper::create(std::shared_ptr<Card> card,
                                                                 const ps::StepPlan& plan) {
  PACELINE_RETURN_IF_ERROR(can_step(plan.optimizer));
  PACELINE_RETURN_IF_ERROR(card->enter());
  PACELINE_ASSIGN_OR_RETURN(CardStream stream, CardStream::create(card));
  std::unique_ptr<CardStepper> stepper(new CardStepper(std::move(card), std::move(stream), plan));
  PACELINE_RETURN_IF_ERROR(stepper->load_kernels());
  PACELINE_RETURN_IF_ERROR(stepper->make_state());
  PACELINE_RETURN_IF_ERROR(stepper->make_tables());
  return stepper;
}

CardStepper::~CardStepper() {
  stream_.settle().IgnoreError();
  if (module_ != nullptr) card_->driver().module_unload(module_);
}

absl::Status CardStepper::load_kernels() {
  const Driver& cu = card_->driver();
  PACELINE_RETURN_IF_ERROR(cu.check(cu.module_load(&module_, kernels_ptx()), "cuModuleLoadData"));
  const KernelNames names = kernels_of(plan_.optimizer.kind);
  const std::pair<Function*, const char*> kernels[] = {
      {&step_, names.step},           {&direction_, names.direction},   {&finite_, kFiniteKernel},
      {&lanes_, kSquaresLanesKernel}, {&blocks_, kSquaresBlocksKernel}, {&groups_, kSquaresGroupsKernel},
      {&factor_, kClipFactorKernel}};
  for (const auto& [function, name] : kernels) {
    if (name == nullptr) continue;
    PACELINE_RETURN_IF_ERROR(cu.check(cu.module_function(function, module_, name), name));
  }
  return absl::OkStatus();
}

absl::Status CardStepper::make_state() {
  const auto floats = static_cast<std::size_t>(plan_.layout.size());
  const auto streams = static_cast<std::size_t>(ps::state_streams(plan_.optimizer.kind));
  PACELINE_ASSIGN_OR_RETURN(state_, CardMemory::create(card_, streams * floats * sizeof(float)));
  return stream_.clear(state_.address(), state_.bytes());
}

absl::Status CardStepper::make_tables() {
  const std::vector<Piece> pieces = pieces_of(plan_.passes, 0, plan_.layout.size());
  const std::vector<SquaresBlock> blocks = blocks_of(plan_.blocks);
  piece_count_ = static_cast<std::int32_t>(pieces.size());
  block_count_ = static_cast<std::int32_t>(blocks.size());
  group_count_ = static_cast<std::int32_t>((block_count_ + ps::kSquaresGroup - 1) / ps::kSquaresGroup);
  Places places;
  const std::size_t piece_place = places.add<Piece>(pieces.size());
  const std::size_t block_place = places.add<SquaresBlock>(blocks.size());
  const std::size_t number_place = places.add<ps::StepNumbers>(plan_.optimizers.size());
  const std::size_t mark_place = places.add<std::uint32_t>(1);
  const std::size_t lane_place = places.add<double>(blocks.size() * ps::kSquaresLanes);
  const std::size_t square_place = places.add<double>(blocks.size());
  const std::size_t group_place = places.add<double>(static_cast<std::size_t>(group_count_));
  const std::size_t total_place = places.add<double>(1);
  const std::size_t factor_place = places.add<float>(1);
  PACELINE_ASSIGN_OR_RETURN(tables_, CardMemory::create(card_, places.bytes()));
  const DevicePointer base = tables_.address();
  pieces_at_ = base + piece_place;
  blocks_at_ = base + block_place;
  numbers_at_ = base + number_place;
  marks_at_ = base + mark_place;
  lanes_at_ = base + lane_place;
  squares_at_ = base + square_place;
  groups_at_ = base + group_place;
  total_at_ = base + total_place;
  factor_at_ = base + factor_place;
  PACELINE_RETURN_IF_ERROR(stream_.upload(pieces_at_, pieces.data(), pieces.size() * sizeof(Piece)));
  if (blocks.empty()) return absl::OkStatus();
  return stream_.upload(blocks_at_, blocks.data(), blocks.size() * sizeof(SquaresBlock));
}

template <class Argument>
absl::Status CardStepper::launch(Function kernel, unsigned blocks, unsigned threads,
                                 Argument argument) const {
  const Driver& cu = card_->driver();
  void* arguments[] = {&argument};
  return cu.check(cu.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream_.get(), arguments, nullptr),
                  "cuLaunchKernel");
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
  PACELINE_RETURN_IF_ERROR(stream_.clear(address_of(buffer.data()), buffer.size() * sizeof(float)));
  PACELINE_RETURN_IF_ERROR(
      stream_.upload(address_of(buffer.data()), weights.data(), weights.size() * sizeof(float)));
  PACELINE_RETURN_IF_ERROR(stream_.clear(marks_at_, sizeof(std::uint32_t)));
  PACELINE_RETURN_IF_ERROR(launch(finite_, blocks_for(piece_count_, 1), kThreads,
                                  FiniteArguments{.values = buffer.data(),
                                                  .pieces = reinterpret_cast<const Piece*>(pieces_at_),
                                                  .marks = reinterpret_cast<std::uint32_t*>(marks_at_),
                                                  .piece_count = piece_count_}));
  const UpdateArguments update = arguments(buffer.data(), buffer);
  if (update.direction != nullptr && !numbers.empty()) {
    PACELINE_RETURN_IF_ERROR(write_numbers(numbers));
    PACELINE_RETURN_IF_ERROR(launch(direction_, blocks_for(piece_count_, 1), kThreads, update));
  }
  return finite();
}

absl::Status CardStepper::copy_constants(std::span<const float> from, std::span<float> to) {
  // Statistics have no direction and nobody writes one; memory of a card is not zero at first.
  const auto floats = static_cast<std::size_t>(plan_.layout.size());
  PACELINE_RETURN_IF_ERROR(
      stream_.clear(address_of(to.data()) + floats * sizeof(float), (to.size() - floats) * sizeof(float)));
  for (const ps::Layout::Run& run : plan_.runs) {
    if (run.kind != ps::TensorKind::kConstant) continue;
    PACELINE_RETURN_IF_ERROR(stream_.copy(address_of(to.data() + run.begin),
                                          address_of(from.data() + run.begin),
                                          static_cast<std::size_t>(run.end - run.begin) * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::Status CardStepper::write_members(const ps::Update& update) {
  std::vector<MemberArgument> members;
  for (const ps::Update::Member& member : update.members) {
    members.push_back({member.gradient, static_cast<float>(member.weight), static_cast<float>(member.share)});
  }
  const std::size_t bytes = members.size() * sizeof(MemberArgument);
  if (bytes > members_.bytes()) {
    PACELINE_RETURN_IF_ERROR(stream_.settle());
    PACELINE_ASSIGN_OR_RETURN(members_, CardMemory::create(card_, bytes));
  }
  return stream_.upload(members_.address(), members.data(), bytes);
}

absl::Status CardStepper::write_numbers(std::span<const ps::StepNumbers> numbers) {
  return stream_.upload(numbers_at_, numbers.data(), numbers.size_bytes());
}

absl::Status CardStepper::clip(const ps::Update& update) {
  const SquaresArguments squares{.members = members_.as<const MemberArgument>(),
                                 .blocks = reinterpret_cast<const SquaresBlock*>(blocks_at_),
                                 .lanes = reinterpret_cast<double*>(lanes_at_),
                                 .squares = reinterpret_cast<double*>(squares_at_),
                                 .groups = reinterpret_cast<double*>(groups_at_),
                                 .member_count = static_cast<std::int32_t>(update.members.size()),
                                 .block_count = block_count_,
                                 .group_count = group_count_};
  PACELINE_RETURN_IF_ERROR(
      launch(lanes_, blocks_for(block_count_ * ps::kSquaresLanes, kThreads), kThreads, squares));
  PACELINE_RETURN_IF_ERROR(launch(blocks_, blocks_for(block_count_, kThreads), kThreads, squares));
  PACELINE_RETURN_IF_ERROR(launch(groups_, blocks_for(group_count_, kThreads), kThreads, squares));
  return launch(factor_, 1, 1,
                ClipArguments{.groups = squares.groups,
                              .total = reinterpret_cast<double*>(total_at_),
                              .factor = reinterpret_cast<float*>(factor_at_),
                              .clip = plan_.optimizer.clip,
                              .group_count = group_count_});
}

UpdateArguments CardStepper::arguments(const float* latest, std::span<float> next) const {
  UpdateArguments update;
  const auto floats = static_cast<std::size_t>(plan_.layout.size());
  update.weights = latest;
  update.next = next.data();
  update.state1 = state_.as<float>();
  update.state2 = ps::state_streams(plan_.optimizer.kind) > 1 ? state_.as<float>() + floats : nullptr;
  update.direction = next.size() > floats ? next.data() + floats : nullptr;
  update.pieces = reinterpret_cast<const Piece*>(pieces_at_);
  update.numbers = reinterpret_cast<const ps::StepNumbers*>(numbers_at_);
  update.marks = reinterpret_cast<std::uint32_t*>(marks_at_);
  update.piece_count = piece_count_;
  return update;
}

absl::StatusOr<bool> CardStepper::step(const Step& step) {
  const ps::Update& update = step.update;
  PACELINE_CHECK(!update.arrival && !update.made && !update.group && !update.squares_of_all && !step.undoable,
                 "commit {} is made in a way that a card does not know", update.version);
  PACELINE_RETURN_IF_ERROR(write_members(update));
  PACELINE_RETURN_IF_ERROR(write_numbers(step.numbers));
  PACELINE_RETURN_IF_ERROR(stream_.clear(marks_at_, sizeof(std::uint32_t)));
  UpdateArguments all = arguments(step.latest.data(), step.next);
  all.members = members_.as<const MemberArgument>();
  all.member_count = static_cast<std::int32_t>(update.members.size());
  all.pull = update.of_differences ? 1.0f : ps::statistics_pull(update.fraction);
  if (block_count_ > 0 && !update.of_differences) {
    PACELINE_RETURN_IF_ERROR(clip(update));
    all.gradient_factor = reinterpret_cast<const float*>(factor_at_);
  }
  PACELINE_RETURN_IF_ERROR(launch(step_, blocks_for(piece_count_, 1), kThreads, all));
  return finite();
}

absl::StatusOr<bool> CardStepper::finite() const {
  std::uint32_t marks = 0;
  PACELINE_RETURN_IF_ERROR(stream_.download(&marks, marks_at_, sizeof marks));
  return (marks & kNotFinite) == 0;
}

absl::Status CardStepper::read(std::span<const float> from, std::span<float> to) const {
  PACELINE_RETURN_IF_ERROR(card_->enter());
  return stream_.download(to.data(), address_of(from.data()), from.size_bytes());
}

}  // namespace paceline::cuda
