// The optimizer's state of a shard in memory that outlives its process: two slots, of which one has the state of the
// latest version while the next one is written into the other. So whenever the process is killed, one slot is whole.
//
// Invariant: a slot that names a version has the whole state of that version. One thread names versions.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/memory/shared_memory.h"

namespace paceline::ps {

class KeptState {
 public:
  // Of so many streams of so many floats, zero at first. `identity`: a number for the shard, its run and its attempt.
  // Errors: ResourceExhausted.
  static absl::StatusOr<KeptState> create(int streams, std::int64_t floats, std::uint64_t identity);
  // Memory that create() made with the same numbers, maybe in a process that is gone. Errors: InvalidArgument if the
  // memory is not such.
  static absl::StatusOr<KeptState> adopt(memory::SharedMemory memory, int streams, std::int64_t floats,
                                         std::uint64_t identity);

  // By stream: the state of the latest version, and the slot for the next one.
  std::vector<std::span<float>> latest() const { return slot(latest_); }
  std::vector<std::span<float>> next() const { return slot(1 - latest_); }
  // Before the next slot is written.
  void begin_next();
  // The next slot has become the latest, of a version that has no name yet; or the other way round.
  void swap() { latest_ = 1 - latest_; }
  // The latest slot has the state of this version, after updates whose fractions have this sum.
  void name(Version version, double fractions);
  // Makes the slot that names this version the latest. Returns the sum of its fractions. Errors: NotFound if no slot
  // names it.
  absl::StatusOr<double> take_up(Version version);

  const memory::SharedMemory& memory() const { return memory_; }

 private:
  struct Header;
  KeptState(memory::SharedMemory memory, memory::Mapping mapping, int streams, std::int64_t floats)
      : memory_(std::move(memory)), mapping_(std::move(mapping)), streams_(streams), floats_(floats) {}
  Header& header() const;
  std::vector<std::span<float>> slot(int index) const;

  memory::SharedMemory memory_;
  memory::Mapping mapping_;
  int streams_;
  std::int64_t floats_;
  int latest_ = 0;
};

}  // namespace paceline::ps
