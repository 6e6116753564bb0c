// Memory of a card that other processes map by name: a board's buffers and the gradients of replicas. The
// server owns it; a service gives its descriptors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/parameters/cuda/card.h"
#include "paceline/parameters/memory/device_buffers.h"
#include "paceline/transport/ipc/descriptor_service.h"

namespace paceline::cuda {

// Pieces of memory of one size, each made and named when it is first asked for.
class CardBuffers final : public memory::DeviceBuffers {
 public:
  // Piece i is named "PREFIX/i". The service outlives this.
  CardBuffers(std::shared_ptr<Card> card, ipc::DescriptorService& service, std::string prefix,
              std::int64_t floats);
  ~CardBuffers() override;

  absl::StatusOr<float*> at(int index) override;
  // Frees a piece here; processes that mapped it keep it.
  void free(int index);

 private:
  std::string name(int index) const;

  const std::shared_ptr<Card> card_;
  ipc::DescriptorService& service_;
  const std::string prefix_;
  const std::int64_t floats_;
  std::map<int, CardMemory> pieces_;
};

}  // namespace paceline::cuda
