// For tests: a whole checkpoint of a model of two weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/shard_files.h"

namespace paceline::store {

// Adds it to the run. All positions below `samples` are trained on.
inline void put_checkpoint(const std::filesystem::path& run, Version version, std::int64_t samples) {
  auto writer = CheckpointWriter::begin(run, version);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ps::Layout layout;
  layout.add("w", ps::TensorKind::kParameter, {2});
  const std::vector<float> weights(static_cast<std::size_t>(layout.size()), 1);
  ASSERT_TRUE(write_shard(writer->directory(), 1, 1, layout, weights, {{}, 0}).ok());
  CheckpointState state;
  state.controller = {version, {.next = samples, .open = {}}, {}};
  state.samples = samples;
  state.shards = 1;
  ASSERT_TRUE(writer->finish(state).ok());
}

}  // namespace paceline::store
