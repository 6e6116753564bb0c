// A program on the processor, with and without a GPU in its host.
#include "paceline/tools/cli/unused_gpu.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/transport/security/testing/temp_folder.h"

namespace paceline::cli {
namespace {

using testing::IsEmpty;
using testing::StartsWith;

class UnusedGpu : public testing::Test {
 protected:
  UnusedGpu() {
    for (const char* name : {"PACELINE_DEVICE", "CUDA_VISIBLE_DEVICES"}) unsetenv(name);
    program_.run = "train.py";
    program_.python = "python3";
    model_.device = "cpu";
  }
  ~UnusedGpu() override {
    for (const char* name : {"PACELINE_DEVICE", "CUDA_VISIBLE_DEVICES"}) unsetenv(name);
  }
  void add_device(const std::string& name) const { std::ofstream{devices_.path() / name}; }
  std::string note() const { return unused_gpu_note(program_, model_, devices_.path()); }

  security::TempFolder devices_;
  config::ProgramConfig program_;
  program::Model model_;
};

TEST_F(UnusedGpu, IsNamedWithTheWayToSeeWhy) {
  EXPECT_THAT(note(), IsEmpty()) << "the host has none";
  add_device("nvidiactl");
  EXPECT_EQ(note(),
            "train.py computes on the processor, and this host has a GPU; python3 -c 'import torch; "
            "torch.cuda.init()' says why PyTorch does not use it; set PACELINE_DEVICE=cpu if you mean the "
            "processor");
  model_.device = "cuda:0 (NVIDIA T4)";
  EXPECT_THAT(note(), IsEmpty());
}

TEST_F(UnusedGpu, OfAmdCountsToo) {
  add_device("kfd");
  EXPECT_THAT(note(), StartsWith("train.py computes on the processor"));
}

TEST_F(UnusedGpu, IsNoNewsToAUserWhoChoseTheProcessor) {
  add_device("nvidiactl");
  setenv("PACELINE_DEVICE", "cpu", 1);
  EXPECT_THAT(note(), IsEmpty());
  unsetenv("PACELINE_DEVICE");
  for (const char* none : {"", "-1"}) {
    setenv("CUDA_VISIBLE_DEVICES", none, 1);
    EXPECT_THAT(note(), IsEmpty()) << none;
  }
  setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
  EXPECT_THAT(note(), StartsWith("train.py computes on the processor"));
}

}  // namespace
}  // namespace paceline::cli
