// The published weights of one shard, in memory that every process of the host maps. The shard writes version
// v + 1 into a buffer that no process reads and then publishes it; readers train on the buffer itself. There
// is no copy and no lock.
//
//   header │ buffer 0 │ buffer 1 │ …            every buffer holds one version of the shard's weights
//
// Invariants
//  1. A published buffer does not change while it is the latest, while a reader has it pinned, or while it
//     is kept.
//  2. `latest` (version and buffer in one word) only moves forward.
//  3. A reader pins a buffer, then checks that this is still the latest (a hazard pointer: Michael 2004). If
//     it is, the writer cannot have chosen the buffer before the pin, and sees the pin when it chooses after.
// A reader that died leaves its pin behind; the writer's owner clears it with release_reader().
//
// The buffers may lie in a card's memory. The header is in the host's memory in any case. Pointers to buffers then are
// addresses that name places: the writer's are the card's own, and a reader's are those of a reserved range that
// nothing lies in, so a processor that reads them ends at once. A version is whole on the card before it is published.
//
// Readers ring, in the header, after they have left something for the writer (gradient_buffer.h: say_ready()).
//
// One writer (one thread); each reader slot belongs to one thread of one process.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/parameters/memory/device_buffers.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::memory {

struct BoardHeader;

class WeightWriter {
 public:
  // Reader slots. There are many more than readers, so that a slot is not used again soon: the pin of a
  // reader that died is cleared a little later, and must not be a new reader's.
  static constexpr int kSlots = 1024;

  // The size of the memory that create() makes.
  static std::size_t bytes(std::int64_t floats, int readers, int kept);

  // `floats` a buffer; at most `readers` slots are pinned at once; up to `kept` versions can be kept at once.
  // `device`: has the buffers; null: the host's memory has. Requires: 0 < readers ≤ kSlots. Errors:
  // ResourceExhausted.
  static absl::StatusOr<WeightWriter> create(std::int64_t floats, int readers, int kept,
                                             std::unique_ptr<DeviceBuffers> device = nullptr);

  // A board that another process created with the same numbers and left when it ended. Its latest version and the pins of
  // readers stay, and what that process had kept has to be kept again. `device` has the buffers as that process left
  // them. `may_be_empty`: it may have no version yet. Errors: InvalidArgument if the memory is no such board, or has no
  // version and may not; those of the device.
  static absl::StatusOr<WeightWriter> adopt(ipc::SharedMemory memory, std::int64_t floats, int readers,
                                            int kept, std::unique_ptr<DeviceBuffers> device = nullptr,
                                            bool may_be_empty = false);
  // The latest version of a board in such memory. Errors: InvalidArgument if the memory is no board, or has no version.
  static absl::StatusOr<Version> version_in(const ipc::SharedMemory& memory);

  // Asks the device for the first `buffers` now, so that a later version does not find it full. No effect on buffers in
  // the host's memory. Errors: the device has no room.
  absl::Status reserve(int buffers);

  // A buffer to write the next version into: not the latest, not pinned, not kept. Its contents are old.
  // Every buffer taken must be published or taken again. Errors: the device has no room for it.
  absl::StatusOr<std::span<float>> take();
  // The buffer that an earlier process had taken last, as that process left it. Errors: FailedPrecondition if that
  // process had taken none, or had published it.
  absl::StatusOr<std::span<float>> take_again();
  // Like take(). Requires: the buffers are in the host's memory.
  std::span<float> next();
  // Makes what was last taken the latest. Requires: `version` above the latest.
  void publish(Version version);

  Version version() const;
  std::span<const float> latest() const;

  // Keeps the latest version's buffer as it is until drop(). Errors: ResourceExhausted when `kept` are kept.
  absl::Status keep(Version version);
  // Keeps an earlier version that the process before had kept. Errors: NotFound if no buffer has it; those of keep().
  absl::Status keep_again(Version version);
  // Keeps what was last taken as this version, unpublished. Errors: the same.
  absl::Status keep_taken(Version version);
  void drop(Version version);
  // Requires: kept.
  std::span<const float> kept(Version version) const;

  // The reader of this slot is gone: forget its pin.
  void release_reader(int slot);

  std::string path() const { return memory_.path(); }
  const ipc::SharedMemory& memory() const { return memory_; }

 private:
  WeightWriter(ipc::SharedMemory memory, ipc::Mapping mapping, std::int64_t floats, int kept,
               std::unique_ptr<DeviceBuffers> device);
  float* buffer(int index) const;
  bool pinned(int index) const;
  absl::Status keep_buffer(Version version, int buffer);
  int free_buffer() const;
  // Asks the device for this buffer if it has not been asked yet.
  absl::Status find_on_device(int index);

  ipc::SharedMemory memory_;
  ipc::Mapping mapping_;
  BoardHeader* header_;
  std::int64_t floats_;
  std::size_t most_kept_;
  std::unique_ptr<DeviceBuffers> device_;
  std::vector<float*> on_device_;  // one for each buffer; null: the device was not asked for it yet
  int taken_ = -1;
  std::vector<std::pair<Version, int>> kept_;  // version, buffer
};

// The board's bell, for a thread beside the writer's: it stays valid when the writer is gone.
class BoardBell {
 public:
  // Errors: NotFound, InvalidArgument (no board).
  static absl::StatusOr<BoardBell> open(const std::string& path);

  // How often readers have rung, modulo 2^32.
  std::uint32_t rung() const;
  // Returns once rung() is not `seen` any more, or after `timeout`.
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) const;
  // Rings as a reader does.
  void ring() const;

 private:
  explicit BoardBell(ipc::Mapping header) : header_(std::move(header)) {}
  BoardHeader& header() const;
  ipc::Mapping header_;
};

class WeightReader {
 public:
  // Errors: NotFound (the server is gone), InvalidArgument (not a board of this many floats, or no such
  // slot).
  static absl::StatusOr<WeightReader> open(const std::string& path, std::int64_t floats, int slot);

  struct Pinned {
    Version version;
    std::span<const float> weights;
  };
  // Waits until a version ≥ `version` is published and pins the latest. Sleeps; nothing after `timeout`.
  std::optional<Pinned> pin(Version version, std::chrono::nanoseconds timeout);
  // Pins exactly this version; nothing when it is not there (it must be kept, or the latest).
  std::optional<Pinned> pin_exactly(Version version);
  void unpin();
  // The latest; a look, no pin.
  Version version() const;
  // Wakes those that wait at the board's bell. What this process wrote before is seen by them.
  void ring();

  // The buffers here, and their offset in the file at path(): for a process that this one reads for.
  const ipc::Mapping& buffers() const { return buffers_; }
  static std::size_t buffers_offset();
  // Whether they are in a card's memory. Then buffers() is a reserved range, in which each has buffer_bytes().
  bool on_device() const { return on_device_; }
  std::size_t buffer_bytes() const;
  int buffer_count() const;
  // The path of a descriptor of this process: the server's own may end with it, while the board stays.
  std::string path() const { return memory_.path(); }

 private:
  WeightReader(ipc::SharedMemory memory, ipc::Mapping header, ipc::Mapping buffers, std::int64_t floats,
               int slot, bool on_device);
  std::span<const float> buffer(int index) const;
  BoardHeader* header() const;

  ipc::SharedMemory memory_;
  ipc::Mapping header_;   // writable: the pins
  ipc::Mapping buffers_;  // read-only
  std::int64_t floats_;
  int slot_;
  bool on_device_;
};

}  // namespace paceline::memory
