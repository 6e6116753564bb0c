// Other hosts' gradients for a shard of this host, while they come in: for each host and commit a slice, as
// large as the shard. The thread that hears the links fills the blocks; the shard's threads wait for them.
//
// Invariant: a host's slices come in the order of their commits; blocks may come for two of them at a time,
// the one that is applied and the next. Slices of commits that were asked for are here as well, and released
// ones while blocks are under way to them.
//
// Gradients that come before they are in a commit (early ones) have slices of their own. They have numbers
// for versions, and may be skipped: nobody asks for them any more, though they may still come. A skipped one
// stays beside the others until no block is under way to it.
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
#include "paceline/parameters/exchange/spare_floats.h"

namespace paceline::exchange {

class Slices {
 public:
  // Slices of `floats` floats, from hosts 0 to hosts − 1. `spares` have that size too.
  Slices(int hosts, std::int64_t floats, std::shared_ptr<SpareFloats> spares)
      : floats_(floats), spares_(std::move(spares)), hosts_(static_cast<std::size_t>(hosts)) {}

  // Memory for a block of a host's slice; nothing as long as two earlier slices are here, or if it was
  // skipped. Errors: DataLoss if the host cannot send that now (a block twice, or of a commit that is over).
  absl::StatusOr<std::optional<std::span<float>>> room(int host, Version version, std::int64_t begin);
  // A block has arrived. True if there may be room now that was not before.
  bool arrived(int host, Version version, std::int64_t begin);
  // No more blocks come. The first reason counts.
  void fail(absl::Status why);

  // The memory of a slice, whose blocks arrive later. Arrived floats may be added to. Requires: the commits
  // are asked for in their order, each once.
  float* slice(int host, Version version);
  // Waits until floats [begin, end) of it are there. Errors: why they never will be.
  absl::Status wait(int host, Version version, std::int64_t begin, std::int64_t end);
  // The slice was applied: its memory is free for the next one.
  void release(int host, Version version);
  // Gives up the slices up to this one.
  void skip(int host, Version version);
  // True if it was skipped. Any thread.
  bool skipped(int host, Version version);

 private:
  struct Slice {
    Version version;
    SpareFloats::Floats floats;
    std::vector<bool> offered;  // for each block: whether it is under way, or here
    std::vector<bool> here;
  };
  using List = std::deque<std::unique_ptr<Slice>>;  // ascending by version
  struct Host {
    List slices;
    List leaving;         // slices that nobody asks for any more, with blocks under way to them
    Version over{-1};     // the last released version
    Version skipped{-1};  // the last skipped version
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
