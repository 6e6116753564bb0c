#include "paceline/store/shard_files.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/store/safetensors.h"
#include "paceline/store/test_directory.h"

namespace paceline::store {
namespace {

using testing::HasSubstr;

ps::Layout sample_layout() {
  ps::Layout layout;
  layout.add("conv.weight", ps::TensorKind::kParameter, {3, 5});
  layout.add("bn.mean", ps::TensorKind::kStatistic, {17});
  layout.add("scale", ps::TensorKind::kParameter, {});
  return layout;
}

// Numbers that tell every place apart; 0 in the padding.
std::vector<float> flat(const ps::Layout& layout, float first) {
  std::vector<float> values(static_cast<std::size_t>(layout.size()));
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    std::iota(values.begin() + tensor.offset, values.begin() + tensor.offset + tensor.size, first);
    first += 100;
  }
  return values;
}

class ShardFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_shard(directory_.path(), 2, 3, layout_, weights_, optimizer_).ok());
  }

  const TestDirectory directory_;
  const ps::Layout layout_ = sample_layout();
  const std::vector<float> weights_ = flat(layout_, 1);
  const ps::OptimizerState optimizer_{{flat(layout_, 1000), flat(layout_, 2000)}, 0.1 + 0.2};
};

TEST_F(ShardFilesTest, WhatWasWrittenIsRead) {
  const auto shard = read_shard(directory_.path(), 2, 3, layout_);
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ(shard->weights, weights_);
  EXPECT_EQ(shard->optimizer.streams, optimizer_.streams);
  EXPECT_EQ(shard->optimizer.fractions, optimizer_.fractions);
}

TEST_F(ShardFilesTest, TheWeightsLieUnderTheModelsNames) {
  const auto file = read_safetensors(directory_ / "weights-2-of-3.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors[0].name, "conv.weight");
  EXPECT_EQ(file->tensors[0].data.size(), 15u);
  const auto optimizer = read_safetensors(directory_ / "optimizer-2-of-3.safetensors");
  EXPECT_EQ(optimizer->tensors[3].name, "conv.weight.1");
}

TEST_F(ShardFilesTest, PaddingIsNotStored) {
  std::vector<float> dirty = weights_;
  dirty[15] = 5;
  ASSERT_TRUE(write_shard(directory_.path(), 2, 3, layout_, dirty, optimizer_).ok());
  EXPECT_EQ(read_shard(directory_.path(), 2, 3, layout_)->weights, weights_);
}

TEST_F(ShardFilesTest, AnotherModelIsNamed) {
  ps::Layout other_shape;
  other_shape.add("conv.weight", ps::TensorKind::kParameter, {5, 3});
  const auto shape = read_shard(directory_.path(), 2, 3, other_shape).status();
  EXPECT_TRUE(absl::IsInvalidArgument(shape));
  EXPECT_THAT(std::string(shape.message()),
              HasSubstr("tensor 'conv.weight' has shape [3, 5] and not [5, 3]"));

  ps::Layout fewer;
  fewer.add("conv.weight", ps::TensorKind::kParameter, {3, 5});
  EXPECT_THAT(std::string(read_shard(directory_.path(), 2, 3, fewer).status().message()),
              HasSubstr("weights-2-of-3.safetensors: has a tensor 'bn.mean' too many"));

  ps::Layout more = layout_;
  more.add("head", ps::TensorKind::kParameter, {2});
  EXPECT_THAT(std::string(read_shard(directory_.path(), 2, 3, more).status().message()),
              HasSubstr("no tensor 'head'"));
}

TEST_F(ShardFilesTest, OddOptimizerFilesAreErrors) {
  const auto path = optimizer_file(directory_.path(), 2, 3);
  using Metadata = std::map<std::string, std::string>;
  for (const Metadata& metadata :
       {Metadata{}, Metadata{{"fractions", "1"}}, Metadata{{"fractions", "1"}, {"streams", "-1"}},
        Metadata{{"fractions", "1"}, {"streams", "99999999999"}},
        Metadata{{"fractions", "1"}, {"streams", "17"}}, Metadata{{"fractions", "nan"}, {"streams", "0"}},
        Metadata{{"fractions", "-1"}, {"streams", "0"}}, Metadata{{"fractions", "1x"}, {"streams", "0"}},
        Metadata{{"fractions", ""}, {"streams", "0"}}, Metadata{{"fractions", "1"}, {"streams", "1"}}}) {
    ASSERT_TRUE(write_safetensors(path, {}, metadata).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(read_shard(directory_.path(), 2, 3, layout_).status()));
  }
}

TEST_F(ShardFilesTest, AMissingShardIsNamed) {
  const auto status = read_shard(directory_.path(), 1, 3, layout_).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("weights-1-of-3.safetensors"));
}

TEST_F(ShardFilesTest, ALayoutsPartsAreRead) {
  for (const auto& parts : {layout_.split(2), layout_.split_evenly(2)}) {
    ASSERT_EQ(parts.size(), 2u);
    for (int i = 0; i < 2; ++i) {
      const auto& part = parts[static_cast<std::size_t>(i)];
      ASSERT_TRUE(write_shard(directory_.path(), i + 1, 2, part, flat(part, 7), {{}, 0}).ok());
      EXPECT_EQ(read_shard(directory_.path(), i + 1, 2, part)->weights, flat(part, 7));
    }
  }
}

TEST_F(ShardFilesTest, OtherwiseCutIsNamed) {
  const auto status = read_shard(directory_.path(), 2, 3, layout_.split_evenly(3)[1]).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no tensor 'bn.mean@0'; resume with the model, optimizer, hosts and release"));
}

// Every number of shards is read as every other one, cut between tensors and within them.
TEST(LoadShard, GathersWhatWasCutOtherwise) {
  const ps::Layout whole = sample_layout();
  const std::vector<float> weights = flat(whole, 1), first = flat(whole, 1000), second = flat(whole, 2000);
  const auto cut = [&](int count, bool evenly) {
    return evenly ? whole.split_evenly(count) : whole.split(count);
  };
  const auto sliced = [](const std::vector<float>& all, std::int64_t begin, const ps::Layout& part) {
    return std::vector<float>(all.begin() + begin, all.begin() + begin + part.size());
  };
  for (const bool evenly : {false, true}) {
    for (int there = 1; there <= 4; ++there) {
      const TestDirectory directory;
      const auto parts = cut(there, evenly);
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        ASSERT_TRUE(write_shard(directory.path(), static_cast<int>(i) + 1, static_cast<int>(parts.size()),
                                parts[i], sliced(weights, begin, parts[i]),
                                {{sliced(first, begin, parts[i]), sliced(second, begin, parts[i])}, 0.25})
                        .ok());
        begin += parts[i].size();
      }
      for (const bool evenly_now : {false, true}) {
        for (int now = 1; now <= 4; ++now) {
          SCOPED_TRACE(testing::Message() << there << evenly << " as " << now << evenly_now);
          begin = 0;
          const auto wanted = cut(now, evenly_now);
          for (std::size_t i = 0; i < wanted.size(); ++i) {
            const auto shard = load_shard(directory.path(), static_cast<int>(i) + 1,
                                          static_cast<int>(wanted.size()), wanted[i]);
            ASSERT_TRUE(shard.ok()) << shard.status();
            EXPECT_EQ(shard->weights, sliced(weights, begin, wanted[i]));
            EXPECT_EQ(shard->optimizer.streams[0], sliced(first, begin, wanted[i]));
            EXPECT_EQ(shard->optimizer.streams[1], sliced(second, begin, wanted[i]));
            EXPECT_EQ(shard->optimizer.fractions, 0.25);
            begin += wanted[i].size();
          }
        }
      }
      ps::Layout other;
      other.add("conv.weight", ps::TensorKind::kParameter, {3, 6});
      const auto refused = load_shard(directory.path(), 1, 7, other).status();
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
      other = {};
      other.add("another", ps::TensorKind::kParameter, {3});
      EXPECT_THAT(std::string(load_shard(directory.path(), 1, 7, other).status().message()),
                  HasSubstr("has not all of tensor 'another'"));
    }
  }
  const TestDirectory empty;
  EXPECT_TRUE(absl::IsNotFound(load_shard(empty.path(), 1, 1, whole).status()));
}

}  // namespace
}  // namespace paceline::store
