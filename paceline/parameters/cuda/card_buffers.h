// Memory of a card that other processes map by name: a board's buffers and the gradients of replicas. The server owns it,
// and gives its descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/parameters/cuda/card.h"
#include "paceline/parameters/memory/device_buffers.h"

namespace paceline::cuda {

// Who has the descriptors of a card's memory.
class PieceRegistry {
 public:
  virtual ~PieceRegistry() = default;
  // Other processes can get the memory by this name from now on.
  virtual void put(const std::string& name, FileDescriptor descriptor, std::size_t bytes) = 0;
  virtual void remove(const std::string& name) = 0;
  // Memory of that name that an earlier process left; nothing if none did.
  virtual std::optional<FileDescriptor> left(const std::string& name) = 0;
};

// Pieces of memory of one size, each made and named when it is first asked for.
class CardBuffers final : public memory::DeviceBuffers {
 public:
  // Piece i is named "PREFIX/i". The registry outlives this.
  CardBuffers(std::shared_ptr<Card> card, PieceRegistry& registry, std::string prefix, std::int64_t floats);

  absl::StatusOr<float*> at(int index) override;
  // Frees a piece here; processes that mapped it keep it.
  void free(int index);

 private:
  std::string name(int index) const;
  absl::StatusOr<CardMemory> make() const;

  const std::shared_ptr<Card> card_;
  PieceRegistry& registry_;
  const std::string prefix_;
  const std::int64_t floats_;
  std::map<int, CardMemory> pieces_;
};

}  // namespace paceline::cuda
