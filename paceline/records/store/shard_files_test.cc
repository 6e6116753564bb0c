#include "paceline/records/store/shard_files.h"

#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

using ::testing::HasSubstr;

ps::Layout sample_layout() {
  ps::Layout layout;
  layout.add("conv.weight", ps::TensorKind::kParameter, {3, 5});
  layout.add("bn.mean", ps::TensorKind::kStatistic, {17});
  layout.add("scale", ps::TensorKind::kParameter, {});
  return layout;
}

// Numbers that are different at every place; 0 in the padding.
std::vector<float> flat(const ps::Layout& layout, float first) {
  std::vector<float> values(static_cast<std::size_t>(layout.size()));
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    std::iota(values.begin() + tensor.offset, values.begin() + tensor.offset + tensor.size, first);
    first += 100;
  }
  return values;
}

class ShardFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_shard(directory_.path(), 2, 3, layout_, weights_, optimizer_).ok());
  }

  const TestDirectory directory_;
  const ps::Layout layout_ = sample_layout();
  const std::vector<float> weights_ = flat(layout_, 1);
  const ps::OptimizerState optimizer_{{flat(layout_, 1000), flat(layout_, 2000)}, 0.1 + 0.2};
};

TEST_F(ShardFilesTest, ReadWhatWasWritten) {
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
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("has other parts of tensor 'bn.mean' than this model needs; a run goes on with the model"));
}

// ---- Constants, and other types than float32 ----

ps::Layout mixed_layout() {
  ps::Layout layout;
  layout.add("mask", ps::TensorKind::kConstant, {3, 37}, ps::Dtype::kBool);
  layout.add("weight", ps::TensorKind::kParameter, {3, 15}, ps::Dtype::kBfloat16);
  layout.add("ids", ps::TensorKind::kConstant, {31}, ps::Dtype::kInt64);
  layout.add("mean", ps::TensorKind::kStatistic, {17}, ps::Dtype::kFloat64);
  layout.add("frozen", ps::TensorKind::kConstant, {40});
  return layout;
}

// Bytes that are different at every place, whatever they mean as floats; 0 in unused places.
std::vector<float> mixed_floats(const ps::Layout& layout, bool constants) {
  std::vector<float> values(static_cast<std::size_t>(layout.size()));
  auto* bytes = reinterpret_cast<unsigned char*>(values.data());
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    if (tensor.kind == ps::TensorKind::kConstant && !constants) continue;
    std::int64_t count = tensor.kind == ps::TensorKind::kConstant ? ps::bytes_of(tensor.dtype) : 4;
    for (const std::int64_t extent : tensor.shape) count *= extent;
    for (std::int64_t i = 0; i < count; ++i)
      bytes[tensor.offset * 4 + i] = static_cast<unsigned char>((tensor.offset * 31 + i * 7) % 251);
  }
  return values;
}

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST(ShardFiles, ConstantsComeBackByteByByteHoweverTheyAreCut) {
  const ps::Layout whole = mixed_layout();
  const std::vector<float> weights = mixed_floats(whole, true), state = mixed_floats(whole, false);
  for (int there = 1; there <= 6; ++there) {
    const TestDirectory directory;
    const auto parts = whole.split_evenly(there);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto size = static_cast<std::size_t>(parts[i].size());
      const std::span<const float> of_state = std::span(state).subspan(begin, size);
      ASSERT_TRUE(write_shard(directory.path(), static_cast<int>(i) + 1, there, parts[i],
                              std::span(weights).subspan(begin, size),
                              {{{of_state.begin(), of_state.end()}}, 0.25})
                      .ok());
      begin += size;
    }
    for (int now = 1; now <= 6; ++now) {
      begin = 0;
      const auto wanted = whole.split_evenly(now);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto size = static_cast<std::size_t>(wanted[i].size());
        const auto shard = load_shard(directory.path(), static_cast<int>(i) + 1, now, wanted[i]);
        ASSERT_TRUE(shard.ok()) << shard.status();
        EXPECT_TRUE(same_bytes(shard->weights, std::span(weights).subspan(begin, size))) << there << now << i;
        EXPECT_TRUE(same_bytes(shard->optimizer.streams[0], std::span(state).subspan(begin, size)))
            << there << now << i;
        begin += size;
      }
    }
  }
}

TEST(ShardFiles, OtherToolsFindConstantsInTheirOwnTypeAndAligned) {
  const TestDirectory directory;
  const ps::Layout layout = mixed_layout();
  const std::vector<float> weights = mixed_floats(layout, true);
  ASSERT_TRUE(write_shard(directory.path(), 1, 1, layout, weights, {{weights}, 1}).ok());
  const auto file = read_safetensors(weights_file(directory.path(), 1, 1));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> names;
  for (const Tensor& tensor : file->tensors) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"ids", "weight", "mean", "frozen", "mask"}));
  EXPECT_EQ(file->tensors[0].dtype, ps::Dtype::kInt64);
  EXPECT_EQ(file->tensors[0].shape, std::vector<std::int64_t>{31});
  EXPECT_EQ(file->tensors[1].dtype, ps::Dtype::kFloat32);
  EXPECT_EQ(file->metadata,
            (std::map<std::string, std::string>{{"dtype.mean", "float64"}, {"dtype.weight", "bfloat16"}}));
  const auto optimizer = read_safetensors(optimizer_file(directory.path(), 1, 1));
  ASSERT_TRUE(optimizer.ok());
  EXPECT_EQ(optimizer->tensors.size(), 2u) << "the state of constants";
}

TEST(ShardFiles, AnotherTypeOfAConstantIsNamed) {
  const TestDirectory directory;
  ps::Layout ints, floats;
  ints.add("a", ps::TensorKind::kConstant, {4}, ps::Dtype::kInt32);
  floats.add("a", ps::TensorKind::kConstant, {4});
  ASSERT_TRUE(write_shard(directory.path(), 1, 1, ints, flat(ints, 1), {{}, 0}).ok());
  const auto status = read_shard(directory.path(), 1, 1, floats).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'a' is of dtype int32 and not float32"));
  EXPECT_TRUE(absl::IsInvalidArgument(load_shard(directory.path(), 1, 2, floats).status()));
}

// Files of a release that did not know constants are equal to those of today.
TEST(ShardFiles, FilesOfFloatsAreAsTheyWere) {
  const TestDirectory directory;
  const ps::Layout layout = sample_layout();
  ASSERT_TRUE(write_shard(directory.path(), 1, 1, layout, flat(layout, 1), {{}, 0}).ok());
  const std::string bytes = *read_file(weights_file(directory.path(), 1, 1), 10000);
  EXPECT_THAT(bytes, HasSubstr(R"({"__metadata__":{"paceline_crc32":"a691370b","paceline_format":"1"},)"
                               R"("bn.mean":{"data_offsets":[60,128],"dtype":"F32","shape":[17]},)"
                               R"("conv.weight":{"data_offsets":[0,60],"dtype":"F32","shape":[3,5]},)"
                               R"("scale":{"data_offsets":[128,132],"dtype":"F32","shape":[]}})"));
}

// A checkpoint of any number of shards is read as any other number, cut between tensors and within them.
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
          SCOPED_TRACE(::testing::Message() << there << evenly << " as " << now << evenly_now);
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

// Changes the last byte, so that the header says another checksum.
void damage(const std::filesystem::path& path) {
  std::string bytes = *read_file(path, 10000);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(atomic_write(path, bytes).ok());
}

TEST(LoadShard, ReadsTheFilesAloneThatHaveSomethingOfIt) {
  const TestDirectory directory;
  const ps::Layout whole = sample_layout();
  const auto there = whole.split_evenly(4), now = whole.split_evenly(2);
  ASSERT_EQ(there.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::vector<float> values = flat(there[i], static_cast<float>(100 * i));
    ASSERT_TRUE(
        write_shard(directory.path(), static_cast<int>(i) + 1, 4, there[i], values, {{values}, 0}).ok());
  }
  damage(weights_file(directory.path(), 1, 4));
  damage(optimizer_file(directory.path(), 1, 4));
  EXPECT_TRUE(absl::IsDataLoss(load_shard(directory.path(), 1, 2, now[0]).status()));
  const auto second = load_shard(directory.path(), 2, 2, now[1]);
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST(LoadWeights, ReadsNoStateOfTheOptimizer) {
  for (const int count : {1, 3}) {
    const TestDirectory directory;
    const ps::Layout whole = sample_layout();
    const std::vector<float> weights = flat(whole, 1);
    const auto parts = whole.split_evenly(count);
    std::int64_t begin = 0;
    for (int i = 0; i < count; ++i) {
      const ps::Layout& part = parts[static_cast<std::size_t>(i)];
      const std::vector<float> own(weights.begin() + begin, weights.begin() + begin + part.size());
      ASSERT_TRUE(write_shard(directory.path(), i + 1, count, part, own, {{own}, 0}).ok());
      begin += part.size();
      std::filesystem::remove(optimizer_file(directory.path(), i + 1, count));
    }
    const auto found = load_weights(directory.path(), whole);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, weights);
    damage(weights_file(directory.path(), count, count));
    EXPECT_TRUE(absl::IsDataLoss(load_weights(directory.path(), whole).status()));
  }
}

}  // namespace
}  // namespace paceline::store
