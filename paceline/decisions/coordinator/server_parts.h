// Which part of the model each server of a job keeps. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/id_vector.h"
#include "paceline/base/layout.h"
#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/messages.h"

namespace paceline::coordinator {

// The places of the servers.
enum class ServerSpread {
  kOneHost,
  kHosts,    // one on each of several hosts
  kCentral,  // the same, and the first one keeps everything
};

// One part for each server. Between hosts the parts are of equal size, so that every link carries equally
// much; a reader puts a cut tensor together. On one host the parts have whole tensors, which are read in
// place. Between hosts they also have whole tensors if `whole_tensors`. With all weights in one place, the first
// part is the whole model, and the others are empty. Errors: InvalidArgument when the model is too small for so many.
absl::StatusOr<std::vector<Layout>> server_parts(const Layout& layout, std::int64_t servers,
                                                 ServerSpread spread, bool whole_tensors);

// Shares of the model for the servers of one host, by the free memory of the cards that have their parts. `cards`: the card of
// each server. `found`: for each worker, its card and the memory that it found free there before its own copy of the
// model, of `model_bytes`. Nothing, so equal shares, if there is only one card, or if nobody knows what a card has free.
std::optional<std::vector<double>> shares_by_memory(std::span<const std::string> cards,
                                                    std::span<const CardMemory> found,
                                                    std::int64_t model_bytes);

// The shards that each server keeps.
using ServerShards = IdVector<ServerId, std::vector<ShardId>>;

// The server's own shard comes first. With several `copies`, server n + 1 has another copy of shard n, so
// that the neighbours of a lost server have its shards. Requires: 1 ≤ copies ≤ servers.
ServerShards shards_kept(int servers, int copies);

}  // namespace paceline::coordinator
