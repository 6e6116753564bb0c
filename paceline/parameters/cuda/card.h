// One GPU as this process uses it: its primary context, a stream, and memory that other processes can map.
//
// Memory is made with cuMemCreate and exported as a descriptor. It exists as long as any process holds the
// descriptor or a mapping, so it outlives the process that made it. cuMemCreate does not clear it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/parameters/cuda/driver.h"

namespace paceline::cuda {

class Card {
 public:
  // The card of that uuid, written as nvidia-smi does: "GPU-8f6d4d9c-...". Errors: Unavailable: no driver, no
  // such card, or one whose memory cannot be shared between processes.
  static absl::StatusOr<std::shared_ptr<Card>> open(std::shared_ptr<const Driver> driver,
                                                    const std::string& uuid);
  // The uuids of all cards, in the driver's order.
  static absl::StatusOr<std::vector<std::string>> all(const Driver& driver);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  const Driver& driver() const { return *driver_; }
  const std::string& uuid() const { return uuid_; }
  const std::string& name() const { return name_; }
  Device device() const { return device_; }
  // Makes this card's context the calling thread's. To be called by each thread before it uses the card.
  absl::Status enter() const;

  struct Free {
    std::size_t free, total;  // bytes
  };
  absl::StatusOr<Free> memory() const;
  // A size of memory: the bytes rounded up to the card's granularity.
  std::size_t rounded(std::size_t bytes) const {
    return (bytes + granularity_ - 1) / granularity_ * granularity_;
  }

 private:
  Card() = default;
  std::shared_ptr<const Driver> driver_;
  Device device_ = 0;
  std::string uuid_, name_;
  Context context_ = nullptr;
  std::size_t granularity_ = 1;
};

// Memory of a card, mapped in this process. Movable, not copyable.
class CardMemory {
 public:
  CardMemory() = default;
  CardMemory(CardMemory&& other) noexcept { *this = std::move(other); }
  CardMemory& operator=(CardMemory&& other) noexcept;
  ~CardMemory();

  // Errors: ResourceExhausted, with what was asked for and what the card has.
  static absl::StatusOr<CardMemory> create(std::shared_ptr<Card> card, std::size_t bytes);
  // Memory that another process made, of at least so many bytes.
  static absl::StatusOr<CardMemory> import(std::shared_ptr<Card> card, const FileDescriptor& descriptor,
                                           std::size_t bytes);

  // The address on the card. The processor cannot read there.
  DevicePointer address() const { return address_; }
  template <class Value>
  Value* as() const {
    return reinterpret_cast<Value*>(address_);
  }
  std::size_t bytes() const { return bytes_; }
  // A new descriptor for it.
  absl::StatusOr<FileDescriptor> descriptor() const;

 private:
  CardMemory(std::shared_ptr<Card> card, AllocationHandle handle, std::size_t bytes)
      : card_(std::move(card)), handle_(handle), bytes_(bytes) {}
  absl::Status map();

  std::shared_ptr<Card> card_;
  AllocationHandle handle_ = 0;
  DevicePointer address_ = 0;
  std::size_t bytes_ = 0;
  bool mapped_ = false;
};

// A queue of work for the card, carried out in its order. Movable, not copyable.
class CardStream {
 public:
  static absl::StatusOr<CardStream> create(std::shared_ptr<Card> card);
  CardStream(CardStream&& other) noexcept;
  CardStream& operator=(CardStream&&) = delete;
  ~CardStream();

  Stream get() const { return stream_; }
  // Waits until all of it is done.
  absl::Status settle() const;
  absl::Status copy(DevicePointer to, DevicePointer from, std::size_t bytes) const;
  // The host's memory has to stay as it is until settle().
  absl::Status copy_to_card(DevicePointer to, const void* from, std::size_t bytes) const;
  // The same, and waits: the host's memory is free again when this returns.
  absl::Status upload(DevicePointer to, const void* from, std::size_t bytes) const;
  // Waits until it is there.
  absl::Status download(void* to, DevicePointer from, std::size_t bytes) const;
  absl::Status clear(DevicePointer at, std::size_t bytes) const;
  absl::Status set_word(DevicePointer at, std::uint32_t value) const;

 private:
  CardStream(std::shared_ptr<Card> card, Stream stream) : card_(std::move(card)), stream_(stream) {}
  std::shared_ptr<Card> card_;
  Stream stream_ = nullptr;
};

}  // namespace paceline::cuda
