#include "paceline/computing/program/program_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/program/messages.h"

namespace paceline::program {

namespace {

// A batch may have longer samples than those that the program has looked at. Memory that nobody touches costs
// nothing.
constexpr std::int64_t kLongerSamples = 8;
constexpr std::int64_t kLeastRoom = std::int64_t{16} << 20;  // bytes
constexpr std::int64_t kMostRoom = std::int64_t{1} << 36;

// Room for a message between this unit and the next one, about so many samples.
std::int64_t room_behind(const Unit& unit, std::int64_t samples) {
  const std::int64_t most_samples = kMostRoom / (kLongerSamples * (unit.message_bytes + 1));
  const std::int64_t bytes =
      kLongerSamples * unit.message_bytes * std::min(samples, most_samples) + unit.extra_bytes;
  return std::clamp(bytes, kLeastRoom, kMostRoom);
}

}  // namespace

ProgramStage::~ProgramStage() {
  forget();
  const std::lock_guard lock(engine_.sharing_);
  engine_.later_ += leave_line(number_);
}

void ProgramStage::forget() {
  for (const auto& buffer : {&in_, &out_}) {
    if (*buffer) engine_.forget((*buffer)->mapping.data());
    buffer->reset();
  }
}

std::vector<ps::FloatRange> ProgramStage::floats() const {
  std::vector<ps::FloatRange> ranges;
  for (std::int64_t i = begin_; i < end_; ++i) {
    for (const std::int64_t index : engine_.model().units[static_cast<std::size_t>(i)].tensors) {
      const ps::TensorSpec& tensor = layout().tensors()[static_cast<std::size_t>(index)];
      ranges.push_back({tensor.offset, tensor.offset + tensor.size});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const ps::FloatRange& a, const ps::FloatRange& b) { return a.begin < b.begin; });
  return ranges;
}

std::int64_t ProgramStage::input_bytes(std::int64_t samples) const {
  if (begin_ == 0) return 0;
  return room_behind(engine_.model().units[static_cast<std::size_t>(begin_ - 1)], samples);
}

std::int64_t ProgramStage::output_bytes(std::int64_t samples) const {
  if (end_ == engine_.units()) return 0;
  return room_behind(engine_.model().units[static_cast<std::size_t>(end_ - 1)], samples);
}

absl::Status ProgramStage::prepare(const engine::Batch& batch) {
  batch_ = batch;
  return absl::OkStatus();
}

absl::StatusOr<ProgramStage::Buffer> ProgramStage::make_buffer(std::int64_t bytes, bool writable) {
  const auto size = static_cast<std::size_t>(bytes);
  PACELINE_ASSIGN_OR_RETURN(auto memory, ipc::SharedMemory::create("paceline-stage", size));
  PACELINE_ASSIGN_OR_RETURN(auto mapping, memory.map(0, size, true));
  engine_.share({memory.path(), mapping.data(), size, 0, writable});
  return Buffer{std::move(memory), std::move(mapping)};
}

absl::Status ProgramStage::make_room(std::int64_t bytes) {
  if (in_ && in_->mapping.size() >= static_cast<std::size_t>(bytes)) return absl::OkStatus();
  forget();
  PACELINE_ASSIGN_OR_RETURN(in_, make_buffer(bytes, false));
  PACELINE_ASSIGN_OR_RETURN(out_, make_buffer(bytes, true));
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> ProgramStage::number_of(const Buffer& buffer) {
  const std::lock_guard lock(engine_.sharing_);
  const auto number = engine_.memories_.number_of(buffer.mapping.data(), engine_.later_);
  PACELINE_CHECK(number.has_value(), "a stage's memory that its program was not told of");
  return *number;
}

absl::Status ProgramStage::start(std::span<const float* const> weights, std::span<float* const> gradients,
                                 std::int64_t samples, std::int64_t micro_batch, std::uint64_t seed,
                                 const engine::KeepGoing& keep_going) {
  PACELINE_CHECK(batch_ && static_cast<std::int64_t>(batch_->samples.size()) == samples,
                 "a stage's iteration of {} samples without its batch", samples);
  received_ = -1;
  computed_ = 0;
  expected_.clear();
  const std::int64_t room = std::max(input_bytes(micro_batch), output_bytes(micro_batch));
  PACELINE_RETURN_IF_ERROR(make_room(std::max(room, kLeastRoom)));
  StageMessage message{.stage = number_, .begin = begin_, .end = end_, .batch = *batch_};
  message.batch.step_seed = seed;
  message.micro_batch = std::min(micro_batch, samples);
  // ProgramEngine::evaluate() says why.
  PACELINE_RETURN_IF_ERROR(engine_.drain(keep_going));
  PACELINE_ASSIGN_OR_RETURN(message.in, number_of(*in_));
  PACELINE_ASSIGN_OR_RETURN(message.out, number_of(*out_));
  PACELINE_ASSIGN_OR_RETURN(const auto from, engine_.runs_of(weights));
  PACELINE_ASSIGN_OR_RETURN(const auto to, engine_.runs_of(gradients));
  PACELINE_ASSIGN_OR_RETURN(const Answer answer, engine_.ask(stage_line(message, from, to), keep_going,
                                                             engine_.options_.step_limit_s));
  if (!std::holds_alternative<Done>(answer)) return engine_.no_result(answer);
  return absl::OkStatus();
}

absl::Status ProgramStage::receive(std::span<const std::byte> message) {
  if (!in_ || message.size() > in_->mapping.size())
    return absl::DataLossError(
        fmt::format("another stage sent a message of {} bytes, for which there is no room", message.size()));
  std::memcpy(in_->mapping.data(), message.data(), message.size());
  received_ = static_cast<std::int64_t>(message.size());
  return absl::OkStatus();
}

absl::Status ProgramStage::receive_input(std::int64_t, std::span<const std::byte> message) {
  return receive(message);
}

absl::Status ProgramStage::receive_gradient(std::int64_t, std::span<const std::byte> message) {
  return receive(message);
}

absl::StatusOr<std::size_t> ProgramStage::send(std::span<std::byte> room) {
  const auto bytes = static_cast<std::size_t>(computed_);
  if (bytes > room.size())
    return absl::InvalidArgumentError(
        fmt::format("a stage's message of {} bytes in room for {}", bytes, room.size()));
  std::memcpy(room.data(), out_->mapping.data(), bytes);
  return bytes;
}

absl::StatusOr<double> ProgramStage::pass(const std::string& line, const engine::KeepGoing& keep_going) {
  received_ = -1;
  PACELINE_ASSIGN_OR_RETURN(const Answer answer, engine_.ask(line, keep_going, engine_.options_.step_limit_s,
                                                             std::exchange(expected_, "")));
  const auto* passed = std::get_if<Passed>(&answer);
  if (passed == nullptr) return engine_.no_result(answer);
  if (static_cast<std::size_t>(passed->bytes) > out_->mapping.size())
    return engine_.failed(absl::DataLossError("sent a message that is larger than its memory"));
  computed_ = passed->bytes;
  return passed->loss;
}

absl::StatusOr<double> ProgramStage::forward(std::int64_t micro, const engine::KeepGoing& keep_going) {
  return pass(pass_line(engine::Pass::kForward, number_, micro, received_), keep_going);
}

absl::Status ProgramStage::backward(std::int64_t micro, const engine::KeepGoing& keep_going) {
  return pass(pass_line(engine::Pass::kBackward, number_, micro, received_), keep_going).status();
}

absl::StatusOr<double> ProgramStage::forward_backward(std::int64_t micro,
                                                      const engine::KeepGoing& keep_going) {
  return pass(pass_line(engine::Pass::kForwardBackward, number_, micro, received_), keep_going);
}

void ProgramStage::expect_pass(engine::Pass pass, std::int64_t micro) {
  expected_ = pass_line(pass, number_, micro, -1);
}

void ProgramStage::expect_finish() { expected_ = finish_line(number_); }

absl::StatusOr<engine::StageResult> ProgramStage::finish(const engine::KeepGoing& keep_going) {
  PACELINE_ASSIGN_OR_RETURN(const Answer answer,
                            engine_.ask(finish_line(number_), keep_going, engine_.options_.step_limit_s));
  const auto* finished = std::get_if<Finished>(&answer);
  if (finished == nullptr) return engine_.no_result(answer);
  return finished->result;
}

}  // namespace paceline::program
