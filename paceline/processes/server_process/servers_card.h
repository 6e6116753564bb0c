// A server's part of a card: its shard, and the gradients of the replicas on it. The server owns this memory,
// and programs map it, so what a replica left is there when its program is gone. If the launcher keeps the memory, it is
// there when the server is gone, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/parameters/cuda/card.h"
#include "paceline/parameters/cuda/card_buffers.h"
#include "paceline/parameters/cuda/card_stepper.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/parameters/ps/bfloat16.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/processes/server_process/kept_memory.h"
#include "paceline/transport/ipc/descriptor_service.h"

namespace paceline::server_process {

class ServersCard final : private cuda::PieceRegistry {
 public:
  // The shard is this part of a model, behind `offset` floats of it. `kept`: keeps the memory, and may have that of an earlier server, which is
  // taken up then; null: the memory ends with its users. It outlives this. Errors: there is no such card for this
  // process, or its memory cannot be shared.
  static absl::StatusOr<std::unique_ptr<ServersCard>> open(const std::string& uuid, const ps::Layout& part,
                                                           std::int64_t offset, KeptMemory* kept);

  // `holders`: versions that readers may hold at once. `identity`: identity_of() the order. Errors: the card has no room;
  // the optimizer steps on processors only; what is kept is of another shard.
  absl::StatusOr<std::unique_ptr<ps::Shard>> make_shard(ps::Layout layout, const config::JobConfig& job,
                                                        int readers, int holders, int kept,
                                                        std::uint64_t identity);
  // The place of a replica's gradient of the whole model. The card has memory for the shard's part of it alone, which is
  // zero at first. Errors: the card has no room.
  absl::StatusOr<ps::GradientPlace> gradient(std::int32_t replica);
  // Copies the part there of a gradient that a worker left in the host's memory. Errors: the same; the card's.
  absl::StatusOr<ps::GradientPlace> copy_gradient(std::int32_t replica, const ps::GradientPlace& whole);
  void free_gradient(std::int32_t replica) { gradients_.free(replica); }

  const std::string& uuid() const { return card_->uuid(); }
  // Gives the memory's descriptors.
  const std::string& socket() const { return service_->address(); }
  // To be called by each thread that reads a shard or a gradient.
  absl::Status enter() const { return card_->enter(); }

 private:
  ServersCard(std::shared_ptr<cuda::Card> card, cuda::CardStream copies,
              std::unique_ptr<ipc::DescriptorService> service, const ps::Layout& part, std::int64_t offset,
              KeptMemory* kept)
      : card_(std::move(card)),
        copies_(std::move(copies)),
        service_(std::move(service)),
        kept_(kept),
        offset_(offset),
        floats_(part.size()),
        narrow_(part.narrow()),
        gradients_(card_, *this, "gradient", ps::card_gradient_floats(floats_, narrow_)) {}

  void put(const std::string& name, FileDescriptor descriptor, std::size_t bytes) override;
  void remove(const std::string& name) override;
  std::optional<FileDescriptor> left(const std::string& name) override;

  absl::StatusOr<std::unique_ptr<cuda::CardStepper>> make_stepper(const ps::StepPlan& plan,
                                                                  std::uint64_t identity);
  absl::StatusOr<memory::WeightWriter> make_board(std::int64_t floats, int readers, int holders, int kept);
  // Whether the card has room for so many gradients, which come later. Errors: ResourceExhausted.
  absl::Status check_gradients_fit(std::size_t replicas) const;

  // The versions for which the card has room from the start on: the newest, the next one, and one that is kept for the
  // evaluator or a checkpoint; beside them what readers hold, but for the one whose gradient makes the next version.
  // Programs take what is free, so a later version could find the card full.
  static constexpr int kVersions = 3;

  std::shared_ptr<cuda::Card> card_;
  cuda::CardStream copies_;  // copies gradients to the card
  std::unique_ptr<ipc::DescriptorService> service_;
  KeptMemory* const kept_;
  const std::int64_t offset_;           // begin of the part in the model
  const std::int64_t floats_, narrow_;  // size of the part, and of its narrow tensors
  cuda::CardBuffers gradients_;
};

}  // namespace paceline::server_process
