// What other hosts' workers have for a shard of this host, while it comes in: of each host and commit one
// slice, as large as the shard. The thread that hears the links puts the blocks in; the shard's threads wait
// for them.
//
// Invariant: a host's slices come in the order of their commits; blocks are let come for two of them
// at a time, the one that is applied and the next. Those of commits that were asked for are here as well, and
// those that are over while blocks are on their way to them.
//
// Gradients that come before they are in a commit (early ones) have slices of their own. They have numbers
// for versions, and may be skipped: nobody asks for them any more, though they may still come. One that was
// skipped stays beside the others until no block is on its way to it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/exchange/spare_floats.h"

namespace paceline::exchange {

class Slices {
 public:
  // Of `floats` each; hosts 0 to hosts − 1. `spares` are of that size too.
  Slices(int hosts, std::int64_t floats, std::shared_ptr<SpareFloats> spares)
      : floats_(floats), spares_(std::move(spares)), hosts_(static_cast<std::size_t>(hosts)) {}

  // Memory for a block of a host's slice; nothing as long as two earlier slices are here, or where it was
  // skipped. Errors: DataLoss when the host cannot send that now (again, or a commit that is over).
  absl::StatusOr<std::optional<std::span<float>>> room(int host, Version version, std::int64_t begin);
  // That block is there. True when there may be room now that was not before.
  bool arrived(int host, Version version, std::int64_t begin);
  // No block comes any more. The first reason counts.
  void fail(absl::Status why);

  // Where the slice will be. What is there may be added to. Requires: the commits are asked for in their
  // order, each once.
  float* slice(int host, Version version);
  // Waits until floats [begin, end) of it are there. Errors: why they never will be.
  absl::Status wait(int host, Version version, std::int64_t begin, std::int64_t end);
  // It was applied: its memory is for the next one.
  void release(int host, Version version);
  // Nobody asks for the slices up to this one any more.
  void skip(int host, Version version);
  // Whether it was skipped. Any thread.
  bool skipped(int host, Version version);

 private:
  struct Slice {
    Version version;
    SpareFloats::Floats floats;
    std::vector<bool> offered;  // by block: on its way, or there
    std::vector<bool> here;
  };
  using List = std::deque<std::unique_ptr<Slice>>;  // by version
  struct Host {
    List slices;
    List leaving;         // nobody asks for them any more, and blocks are on their way to them
    Version over{-1};     // the last that was released
    Version skipped{-1};  // the last that was
  };
  static Slice* find(List& slices, Version version);
  Slice& add(Host& host, Version version) const;
  void put_away(Host& host, std::unique_ptr<Slice> slice) const;

  const std::int64_t floats_;
  const std::shared_ptr<SpareFloats> spares_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Host> hosts_;
  absl::Status failed_;
};

}  // namespace paceline::exchange
