// The published weights of all shards, as one replica's tensors.
#pragma once

#include <optional>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/ps/layout.h"
#include "paceline/rpc/paceline.pb.h"
#include "paceline/transport/weight_board.h"

namespace paceline::cli {

class BoardReaders {
 public:
  // Errors: what a shard's board cannot be opened for, or that the parts are not the model's `layout`.
  static absl::StatusOr<BoardReaders> open(const rpc::wire::Boards& boards, const ps::Layout& layout);

  struct Pinned {
    Version version;                    // the lowest of the shards'
    std::vector<const float*> tensors;  // one a tensor of the whole layout, in its order
  };
  // A version ≥ `version` of every shard; nothing when they are not there within `timeout`.
  std::optional<Pinned> pin(Version version, std::chrono::nanoseconds timeout);
  // Exactly this version, which the shards keep.
  std::optional<Pinned> pin_exactly(Version version);
  void unpin();

 private:
  struct Shard {
    ps::Layout part;
    transport::WeightReader reader;
  };
  explicit BoardReaders(std::vector<Shard> shards) : shards_(std::move(shards)) {}
  template <class PinOne>
  std::optional<Pinned> pin_all(PinOne pin_one);

  std::vector<Shard> shards_;
};

}  // namespace paceline::cli
