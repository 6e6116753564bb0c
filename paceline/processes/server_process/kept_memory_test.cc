// The memory that a server leaves to the next one.
#include "paceline/processes/server_process/kept_memory.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "paceline/parameters/memory/weight_board.h"
#include "paceline/parameters/ps/kept_state.h"

namespace paceline::server_process {
namespace {

TEST(KeptMemory, SaysWhetherAnUpdateHadBegun) {
  Layout layout;
  layout.add("a", TensorKind::kParameter, {64});
  auto board = memory::WeightWriter::create(64, 1, 1).value();
  auto state = ps::KeptState::create(ps::KeptShape::of(layout, ps::OptimizerKind::kAdam, 1), 7).value();
  const ipc::DescriptorKeep launchers = ipc::DescriptorKeep::open().value();
  ipc::DescriptorKeep keep(FileDescriptor(dup(launchers.ends()[0])),
                           FileDescriptor(dup(launchers.ends()[1])));
  KeptMemory kept(keep, wire::ServerStart());
  kept.put(KeptMemory::kBoard, board.memory());
  kept.put(KeptMemory::kState, state.memory());
  state.start(Version(3), 1);
  for (int version = 3; version <= 6; ++version) {
    state.begin(Version(version), version);
    ASSERT_TRUE(board.take().ok());
    board.publish(Version(version));
    EXPECT_EQ(KeptMemory::look(keep)->shard().version(), version);
    EXPECT_FALSE(KeptMemory::look(keep)->shard().begun());
    state.begin(Version(version + 1), version + 1);
    EXPECT_EQ(KeptMemory::look(keep)->shard().version(), version);
    EXPECT_TRUE(KeptMemory::look(keep)->shard().begun());
  }
}

}  // namespace
}  // namespace paceline::server_process
