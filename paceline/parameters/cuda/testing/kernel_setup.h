// The set-up that tests of kernels share: launches on a processor, a shard to compare with, and commits.
#pragma once

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/cuda/host_kernels.h"
#include "paceline/parameters/ps/shard.h"

namespace paceline::cuda {

struct Grid {
  unsigned blocks;
  unsigned threads;
};

// Runs a kernel that takes one argument, `arguments`.
template <class Arguments>
void launch(const char* name, Arguments arguments, Grid grid) {
  const HostKernel* kernel = paceline_host_kernel(name);
  ASSERT_NE(kernel, nullptr) << name;
  ASSERT_EQ(kernel->count, 1) << name;
  ASSERT_EQ(kernel->sizes[0], sizeof(arguments)) << name;
  void* pointers[] = {&arguments};
  kernel->run(pointers, grid.blocks, grid.threads);
}

inline ps::Shard host_shard(const ps::Layout& layout, const ps::OptimizerConfig& optimizer,
                            const std::vector<ps::ParameterGroup>& groups, bool look_ahead) {
  const std::int64_t floats = ps::Shard::board_floats(layout, look_ahead);
  return ps::Shard(layout, optimizer, memory::WeightWriter::create(floats, 1, 1).value(), 2, groups);
}

// A commit that owns its gradients. `random_floats(seed)` makes a gradient.
struct CommitOfGradients {
  std::vector<std::vector<float>> gradients;
  ps::Update update;

  template <class RandomFloats>
  CommitOfGradients(int version, int members, double fraction, RandomFloats random_floats) {
    update.version = Version(version);
    update.learning_rate = 0.1;
    update.fraction = fraction;
    for (int i = 0; i < members; ++i) {
      gradients.push_back(
          random_floats(mix_seed({static_cast<std::uint64_t>(version), static_cast<std::uint64_t>(i)})));
    }
    for (const auto& gradient : gradients)
      update.members.push_back({gradient.data(), 0.7 / members, 1.0 / members});
  }
  CommitOfGradients(const CommitOfGradients&) = delete;
};

}  // namespace paceline::cuda
