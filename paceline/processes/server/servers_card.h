// A server's part of a card: its shard, and the gradients of the replicas on it. The server owns this memory,
// and programs map it, so what a replica left is there when its program is gone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/parameters/cuda/card.h"
#include "paceline/parameters/cuda/card_buffers.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/transport/ipc/descriptor_service.h"

namespace paceline::server {

class ServersCard {
 public:
  // The gradients are of this many floats. Errors: there is no such card for this process, or its memory
  // cannot be shared.
  static absl::StatusOr<std::unique_ptr<ServersCard>> open(const std::string& uuid,
                                                           std::int64_t gradient_floats);

  // A shard that is the whole model. Errors: the card has no room; the optimizer steps on processors only.
  absl::StatusOr<std::unique_ptr<ps::Shard>> make_shard(ps::Layout layout, const config::JobConfig& job,
                                                        int readers, int kept);
  // The place of a replica's gradient, zero at first. Errors: the card has no room.
  absl::StatusOr<const float*> gradient(std::int32_t replica) { return gradients_.at(replica); }
  void free_gradient(std::int32_t replica) { gradients_.free(replica); }

  const std::string& uuid() const { return card_->uuid(); }
  // Gives the memory's descriptors.
  const std::string& socket() const { return service_->address(); }
  // To be called by each thread that reads a shard or a gradient.
  absl::Status enter() const { return card_->enter(); }

 private:
  ServersCard(std::shared_ptr<cuda::Card> card, std::unique_ptr<ipc::DescriptorService> service,
              std::int64_t gradient_floats)
      : card_(std::move(card)),
        service_(std::move(service)),
        gradients_(card_, *service_, "gradient", gradient_floats) {}

  std::shared_ptr<cuda::Card> card_;
  std::unique_ptr<ipc::DescriptorService> service_;
  cuda::CardBuffers gradients_;
};

}  // namespace paceline::server
