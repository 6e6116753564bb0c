#include "paceline/processes/server_process/servers_card.h"

#include <algorithm>
#include <utility>

#include "paceline/base/status_macros.h"

namespace paceline::server_process {

absl::StatusOr<std::unique_ptr<ServersCard>> ServersCard::open(const std::string& uuid,
                                                               const ps::Layout& part, std::int64_t offset,
                                                               KeptMemory* kept) {
  PACELINE_ASSIGN_OR_RETURN(auto driver, cuda::Driver::load(cuda::Driver::library_of_environment()));
  PACELINE_ASSIGN_OR_RETURN(auto card, cuda::Card::open(std::move(driver), uuid));
  PACELINE_ASSIGN_OR_RETURN(cuda::CardStream copies, cuda::CardStream::create(card));
  // Programs know the socket of the server before, and may ask for its memory at any moment.
  PACELINE_ASSIGN_OR_RETURN(auto service,
                            kept == nullptr ? ipc::DescriptorService::start()
                                            : ipc::DescriptorService::start(kept->socket(), kept->on_card()));
  if (kept != nullptr) kept->set_card(uuid, service->address());
  return std::unique_ptr<ServersCard>(
      new ServersCard(std::move(card), std::move(copies), std::move(service), part, offset, kept));
}

absl::StatusOr<ps::GradientPlace> ServersCard::gradient(std::int32_t replica) {
  PACELINE_ASSIGN_OR_RETURN(const float* const memory, gradients_.at(replica));
  return ps::card_gradient(memory, narrow_).from(-offset_);
}

absl::StatusOr<ps::GradientPlace> ServersCard::copy_gradient(std::int32_t replica,
                                                             const ps::GradientPlace& whole) {
  PACELINE_ASSIGN_OR_RETURN(const ps::GradientPlace of_whole, gradient(replica));
  const ps::GradientPlace from = whole.from(offset_), to = of_whole.from(offset_);
  const auto narrow = static_cast<std::size_t>(narrow_) * sizeof(ps::Bfloat16);
  const auto wide = static_cast<std::size_t>(floats_ - narrow_) * sizeof(float);
  PACELINE_RETURN_IF_ERROR(
      copies_.copy_to_card(reinterpret_cast<cuda::DevicePointer>(to.narrow), from.narrow, narrow));
  PACELINE_RETURN_IF_ERROR(copies_.copy_to_card(reinterpret_cast<cuda::DevicePointer>(to.wide + narrow_),
                                                from.wide + narrow_, wide));
  PACELINE_RETURN_IF_ERROR(copies_.settle());
  return of_whole;
}

absl::StatusOr<std::unique_ptr<cuda::CardStepper>> ServersCard::make_stepper(const ps::StepPlan& plan,
                                                                             std::uint64_t identity) {
  if (kept_ == nullptr) return cuda::CardStepper::create(card_, plan);
  cuda::CardStepper::Kept kept{.identity = identity};
  if (const auto left = kept_->find(KeptMemory::kCardState)) {
    PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory page, kept_->memory(KeptMemory::kState));
    PACELINE_ASSIGN_OR_RETURN(cuda::CardMemory memory,
                              cuda::CardMemory::import(card_, *left, kept_->bytes(KeptMemory::kCardState)));
    kept.left.emplace(cuda::CardState::Left{std::move(page), std::move(memory)});
    return cuda::CardStepper::create(card_, plan, std::move(kept));
  }
  PACELINE_ASSIGN_OR_RETURN(auto stepper, cuda::CardStepper::create(card_, plan, std::move(kept)));
  const cuda::CardState& state = stepper->state_memory();
  PACELINE_ASSIGN_OR_RETURN(const FileDescriptor descriptor, state.memory().descriptor());
  kept_->put(KeptMemory::kState, *state.page());
  kept_->put(KeptMemory::kCardState, descriptor.get(), state.memory().bytes());
  return stepper;
}

// The one shard at its socket, so its name is known to all.
absl::StatusOr<memory::WeightWriter> ServersCard::make_board(std::int64_t floats, int readers, int holders,
                                                             int kept) {
  cuda::PieceRegistry& registry = *this;
  auto buffers = std::make_unique<cuda::CardBuffers>(card_, registry, "board/0", floats);
  if (kept_ != nullptr && kept_->find(KeptMemory::kBoard)) {
    PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory left, kept_->memory(KeptMemory::kBoard));
    return memory::WeightWriter::adopt(std::move(left), floats, readers, kept, std::move(buffers));
  }
  PACELINE_ASSIGN_OR_RETURN(memory::WeightWriter board,
                            memory::WeightWriter::create(floats, readers, kept, std::move(buffers)));
  if (kept_ != nullptr) kept_->put(KeptMemory::kBoard, board.memory());
  PACELINE_RETURN_IF_ERROR(board.reserve(kVersions + std::max(holders, 1) - 1));
  return board;
}

absl::Status ServersCard::check_gradients_fit(std::size_t replicas) const {
  std::vector<cuda::CardMemory> room(replicas);
  const std::int64_t floats = ps::card_gradient_floats(floats_, narrow_);
  for (cuda::CardMemory& one : room) {
    PACELINE_ASSIGN_OR_RETURN(
        one, cuda::CardMemory::create(card_, static_cast<std::size_t>(floats) * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ps::Shard>> ServersCard::make_shard(ps::Layout layout,
                                                                   const config::JobConfig& job, int readers,
                                                                   int holders, int kept,
                                                                   std::uint64_t identity) {
  const std::int64_t floats = ps::Shard::board_floats(layout, job.look_ahead);
  auto plan =
      std::make_unique<const ps::StepPlan>(ps::StepPlan::of(std::move(layout), job.optimizer, job.groups));
  PACELINE_ASSIGN_OR_RETURN(auto stepper, make_stepper(*plan, identity));
  const bool is_new = kept_ == nullptr || !kept_->find(KeptMemory::kBoard);
  PACELINE_ASSIGN_OR_RETURN(auto board, make_board(floats, readers, holders, kept));
  if (is_new) PACELINE_RETURN_IF_ERROR(check_gradients_fit(job.devices.size()));
  return std::make_unique<ps::Shard>(std::move(plan), std::move(board), std::move(stepper));
}

// Kept before anybody can have it: a program never maps memory that the next server does not find.
void ServersCard::put(const std::string& name, FileDescriptor descriptor, std::size_t bytes) {
  if (kept_ != nullptr) kept_->put(name, descriptor.get(), bytes);
  service_->put(name, std::move(descriptor), bytes);
}

void ServersCard::remove(const std::string& name) {
  service_->remove(name);
  if (kept_ != nullptr) kept_->remove(name);
}

std::optional<FileDescriptor> ServersCard::left(const std::string& name) {
  return kept_ != nullptr ? kept_->find(name) : std::nullopt;
}

}  // namespace paceline::server_process
