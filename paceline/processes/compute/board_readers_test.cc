// Tests of a worker's pull from the boards of several servers, looking ahead or not.
#include "paceline/processes/compute/board_readers.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/parameters/ps/step_math.h"

namespace paceline::compute {
namespace {

constexpr auto kAtOnce = std::chrono::nanoseconds::zero();

// A model on some servers, with a version that went somewhere.
class Servers {
 public:
  explicit Servers(int evenly = 0) {
    layout_.add("weight", ps::TensorKind::kParameter, {30, 10});
    layout_.add("mean", ps::TensorKind::kStatistic, {40});
    layout_.add("frozen", ps::TensorKind::kConstant, {50}, ps::Dtype::kInt64);
    layout_.add("bias", ps::TensorKind::kParameter, {7});
    std::int64_t offset = 0;
    for (const ps::Layout& part : evenly > 0 ? layout_.split_evenly(evenly) : layout_.split(2)) {
      const std::int64_t floats = ps::Shard::board_floats(part, true);
      shards_.emplace_back(part, ps::OptimizerConfig{}, memory::WeightWriter::create(floats, 1, 0).value(),
                           1);
      start(shards_.back(), static_cast<float>(offset));
      offset += part.size();
      wire::Board* board = boards_.add_boards();
      board->set_path(shards_.back().board().path());
      *board->mutable_part() = wire::to_wire(part);
    }
  }

  BoardReaders readers() const { return BoardReaders::open(boards_, layout_, true).value(); }
  const wire::Boards& boards() const { return boards_; }
  void commit(int version) {
    for (ps::Shard& shard : shards_) {
      const std::vector<float> gradient(static_cast<std::size_t>(shard.layout().size()), 0.5f);
      ASSERT_TRUE(shard.apply({Version(version), {{gradient.data(), 1.0, 1.0}}, 0.1, 1.0}).ok());
    }
  }
  // The whole model's weights so far along their direction; padding is 0.
  std::vector<float> weights(float reach) const {
    std::vector<float> all;
    for (const ps::Shard& shard : shards_) {
      for (std::size_t i = 0; i < shard.weights().size(); ++i)
        all.push_back(shard.weights()[i] - reach * shard.direction()[i]);
    }
    return all;
  }
  const ps::Layout& layout() const { return layout_; }
  // The first float of every tensor, so far along its direction.
  std::vector<float> firsts(float reach) const {
    std::vector<float> all;
    for (const ps::Shard& shard : shards_) {
      for (const ps::TensorSpec& tensor : shard.layout().tensors()) {
        const auto at = static_cast<std::size_t>(tensor.offset);
        all.push_back(shard.weights()[at] - reach * shard.direction()[at]);
      }
    }
    return all;
  }

 private:
  static void start(ps::Shard& shard, float first) {
    std::vector<float> weights(static_cast<std::size_t>(shard.layout().size()));
    for (float& weight : weights) weight = first++;
    EXPECT_TRUE(shard.start(Version(0), weights).ok());
  }

  ps::Layout layout_;
  std::deque<ps::Shard> shards_;  // a deque: shards keep their addresses
  wire::Boards boards_;
};

std::vector<float> firsts(const BoardReaders::Pinned& pinned) {
  std::vector<float> all;
  for (const float* tensor : pinned.tensors) all.push_back(*tensor);
  return all;
}

TEST(BoardReaders, LooksAheadOverAllServers) {
  Servers servers;
  servers.commit(1);
  BoardReaders readers = servers.readers();
  const auto ahead = readers.pull_ahead(Version(1), 0.25f, kAtOnce);
  ASSERT_TRUE(ahead);
  EXPECT_EQ(ahead->version, Version(1));
  EXPECT_EQ(firsts(*ahead), servers.firsts(0.25f));
  EXPECT_NE(servers.firsts(0.25f), servers.firsts(0));
  const auto pinned = readers.pin(Version(1), kAtOnce);
  ASSERT_TRUE(pinned);
  EXPECT_EQ(firsts(*pinned), servers.firsts(0));
}

// A reader of the host's copy of a shard rings at the board in the card's memory, which the server hears.
TEST(BoardReaders, RingsAtTheBoardThatItsServerHears) {
  Servers servers;
  const auto own = memory::WeightWriter::create(64, 1, 0).value();
  wire::Boards boards = servers.boards();
  const std::string read = boards.boards(0).path(), other = boards.boards(1).path();
  boards.mutable_boards(0)->set_bell(own.path());
  BoardReaders readers = BoardReaders::open(boards, servers.layout(), true).value();
  const auto rung = [](const std::string& path) { return memory::BoardBell::open(path).value().rung(); };
  const std::uint32_t before = rung(read), other_before = rung(other);
  readers.ring();
  EXPECT_EQ(rung(own.path()), 1u);
  EXPECT_EQ(rung(read), before);
  EXPECT_EQ(rung(other), other_before + 1);
}

// One cut, several in one tensor, and cuts that take up more than a part.
TEST(BoardReaders, JoinsTensorsThatAreCut) {
  for (int count = 1; count <= 7; ++count) {
    Servers servers(count);
    BoardReaders readers = servers.readers();
    for (int version = 1; version <= 3; ++version) {
      servers.commit(version);
      const auto check = [&](const BoardReaders::Pinned& found, float reach) {
        EXPECT_EQ(found.version, Version(version));
        const std::vector<float> whole = servers.weights(reach);
        ASSERT_EQ(found.tensors.size(), servers.layout().tensors().size());
        for (std::size_t t = 0; t < found.tensors.size(); ++t) {
          const ps::TensorSpec& tensor = servers.layout().tensors()[t];
          for (std::int64_t i = 0; i < tensor.size; ++i)
            ASSERT_EQ(found.tensors[t][i], whole[static_cast<std::size_t>(tensor.offset + i)])
                << count << " shards: " << tensor.name << " at " << i;
        }
      };
      check(*readers.pin(Version(version), kAtOnce), 0);
      readers.unpin();
      check(*readers.pin_exactly(Version(version)), 0);
      readers.unpin();
      check(*readers.pull_ahead(Version(version), 0.25f, kAtOnce), 0.25f);
    }
  }
}

// Narrow tensors on two servers; their weights, and where they go.
TEST(BoardReaders, GivesNarrowTensorsAsBfloat16) {
  ps::Layout layout;
  layout.add("first", ps::TensorKind::kParameter, {100}, ps::Dtype::kBfloat16);
  layout.add("second", ps::TensorKind::kParameter, {50}, ps::Dtype::kBfloat16);
  layout.add("norm", ps::TensorKind::kParameter, {40});
  layout.set_narrow(layout.leading_bfloat16());
  for (const bool look_ahead : {false, true}) {
    std::deque<ps::Shard> shards;
    wire::Boards boards;
    for (const ps::Layout& part : layout.split(2)) {
      const std::int64_t floats = ps::Shard::board_floats(part, look_ahead);
      ps::Shard& shard = shards.emplace_back(part, ps::OptimizerConfig{},
                                             memory::WeightWriter::create(floats, 1, 0).value(), 1);
      std::vector<float> weights(static_cast<std::size_t>(part.size()));
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 1 + static_cast<float>(i) / 512.0f;
      ASSERT_TRUE(shard.start(Version(0), weights).ok());
      std::vector<float> gradient(weights.size(), 0.25f);
      std::fill_n(ps::narrow_part(gradient.data()), part.narrow(), ps::narrowed(0.25f));
      const auto place = ps::host_gradient(gradient.data());
      ASSERT_TRUE(shard.apply({Version(1), {{place.wide, 1.0, 1.0, place.narrow}}, 0.1, 1.0}).ok());
      boards.add_boards()->set_path(shard.board().path());
      *boards.mutable_boards(boards.boards_size() - 1)->mutable_part() = wire::to_wire(part);
    }
    BoardReaders readers = BoardReaders::open(boards, layout, look_ahead).value();
    const auto check = [&](const BoardReaders::Pinned& pinned, float reach) {
      std::size_t t = 0;
      for (const ps::Shard& shard : shards) {
        for (const ps::TensorSpec& tensor : shard.layout().tensors()) {
          for (std::int64_t i = 0; i < tensor.size; ++i) {
            const auto at = static_cast<std::size_t>(tensor.offset + i);
            float expected = shard.weights()[at];
            if (reach != 0) expected -= reach * shard.direction()[at];
            if (tensor.dtype != ps::Dtype::kBfloat16)
              ASSERT_EQ(pinned.tensors[t][i], expected) << tensor.name << " at " << i;
            else
              ASSERT_EQ(reinterpret_cast<const ps::Bfloat16*>(pinned.tensors[t])[i], ps::narrowed(expected))
                  << tensor.name << " at " << i;
          }
          ++t;
        }
      }
    };
    check(*readers.pin(Version(1), kAtOnce), 0);
    readers.unpin();
    if (look_ahead) check(*readers.pull_ahead(Version(1), 0.25f, kAtOnce), 0.25f);
  }
}

// A program copies a tensor up to where the next one would begin.
TEST(BoardReaders, AJoinedTensorHasItsPaddingInMemory) {
  for (int count = 2; count <= 7; ++count) {
    Servers servers(count);
    servers.commit(1);
    BoardReaders readers = servers.readers();
    const auto pinned = readers.pin(Version(1), kAtOnce);
    ASSERT_TRUE(pinned);
    const std::vector<engine::Memory> memories = readers.memories();
    for (std::size_t t = 0; t < pinned->tensors.size(); ++t) {
      const ps::TensorSpec& tensor = servers.layout().tensors()[t];
      const auto* begin = reinterpret_cast<const std::byte*>(pinned->tensors[t]);
      const std::int64_t lines = (tensor.size + ps::Layout::kAlignment - 1) / ps::Layout::kAlignment;
      const std::byte* end =
          begin + lines * ps::Layout::kAlignment * static_cast<std::int64_t>(sizeof(float));
      EXPECT_TRUE(std::any_of(memories.begin(), memories.end(),
                              [&](const engine::Memory& memory) {
                                return begin >= memory.base && end <= memory.base + memory.bytes;
                              }))
          << count << " shards: " << tensor.name;
    }
  }
}

TEST(BoardReaders, PartsThatAreNotTheModelsAreRefused) {
  Servers servers(3);
  const auto refused = [&](wire::Boards boards) {
    return BoardReaders::open(boards, servers.layout(), true).status().code() ==
           absl::StatusCode::kInvalidArgument;
  };
  EXPECT_FALSE(refused(servers.boards()));
  wire::Boards boards = servers.boards();
  boards.mutable_boards()->RemoveLast();
  EXPECT_TRUE(refused(boards));
  boards = servers.boards();
  boards.mutable_boards()->SwapElements(0, 1);
  EXPECT_TRUE(refused(boards));
  boards = servers.boards();
  *boards.add_boards() = boards.boards(0);
  EXPECT_TRUE(refused(boards));
}

// The server was killed after it had said where its board is.
TEST(BoardReaders, ABoardWhoseServerIsGoneIsAskedForAgain) {
  const Servers servers(2);
  wire::Boards boards = servers.boards();
  boards.mutable_boards(1)->set_path("/proc/self/fd/100000");
  EXPECT_EQ(BoardReaders::open(boards, servers.layout(), true).status().code(), absl::StatusCode::kAborted);
}

TEST(BoardReaders, WhatItPulledAheadIsItsOwn) {
  Servers servers;
  servers.commit(1);
  BoardReaders readers = servers.readers();
  const auto ahead = readers.pull_ahead(Version(1), 0.25f, kAtOnce);
  ASSERT_TRUE(ahead);
  const std::vector<float> before = firsts(*ahead);
  // More versions than a board has buffers.
  for (int version = 2; version <= 8; ++version) servers.commit(version);
  EXPECT_EQ(firsts(*ahead), before);
}

TEST(BoardReaders, DoesNotPullWhatIsNotThere) {
  Servers servers;
  BoardReaders readers = servers.readers();
  EXPECT_FALSE(readers.pull_ahead(Version(1), 0.25f, kAtOnce));
}

}  // namespace
}  // namespace paceline::compute
