#include "paceline/records/store/weights_file.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

using ::testing::HasSubstr;

class WeightsFile : public ::testing::Test {
 protected:
  WeightsFile() {
    layout_.add("w", ps::TensorKind::kParameter, {2, 2});
    layout_.add("count", ps::TensorKind::kConstant, {1}, ps::Dtype::kInt64);
    layout_.add("mean", ps::TensorKind::kStatistic, {1}, ps::Dtype::kFloat64);
    out_.assign(static_cast<std::size_t>(layout_.size()), -1.0f);
    count_.resize(2);
    std::memcpy(count_.data(), &kCount, sizeof kCount);
    mean_.resize(2);
    std::memcpy(mean_.data(), &kMean, sizeof kMean);
    views_ = {{"w", {2, 2}, w_.data()},
              {"other", {1}, w_.data()},
              {"mean", {1}, mean_.data(), ps::Dtype::kFloat64},
              {"count", {1}, count_.data(), ps::Dtype::kInt64}};
  }
  absl::Status read() {
    EXPECT_TRUE(write_safetensors(path_, views_, {}).ok());
    return read_weights(path_, layout_, out_);
  }
  std::string wrong() { return std::string(read().message()); }

  static constexpr std::int64_t kCount = 1'000'000'000'007;
  static constexpr double kMean = 0.25;
  const TestDirectory directory_;
  const std::filesystem::path path_ = directory_ / "w.safetensors";
  ps::Layout layout_;
  std::vector<float> w_ = {1, 2, 3, 4}, count_, mean_, out_;
  std::vector<TensorView> views_;
};

TEST_F(WeightsFile, AnotherFileIsRefusedWithWhatToName) {
  ASSERT_TRUE(atomic_write(path_, "model = \"mlp\"\nepochs = 3\n").ok());
  const absl::Status status = read_weights(path_, layout_, out_);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path_.string() + ": not a safetensors file, or its first bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("; name a whole safetensors file"));
}

TEST_F(WeightsFile, EachTensorGoesToItsPlace) {
  ASSERT_TRUE(read().ok());
  const auto at = [&](int tensor) {
    return out_.data() + layout_.tensors()[static_cast<std::size_t>(tensor)].offset;
  };
  EXPECT_EQ(std::vector<float>(at(0), at(0) + 4), w_);
  EXPECT_EQ(std::memcmp(at(1), &kCount, sizeof kCount), 0);
  EXPECT_EQ(*at(2), 0.25f);
  EXPECT_EQ(out_[4], -1) << "padding";
}

TEST_F(WeightsFile, NamesTensorsThatDoNotFit) {
  views_[0].shape = {4};
  EXPECT_THAT(wrong(), HasSubstr("w.safetensors: tensor 'w' has the shape [4], and [2, 2] in the model"));
  views_[0].shape = {2, 2};
  views_[0].name = "v";
  EXPECT_THAT(wrong(), HasSubstr("has no tensor 'w', which the model has"));
  views_[0].name = "w";
  w_[3] = NAN;
  EXPECT_THAT(wrong(), HasSubstr("tensor 'w' is not finite"));
  w_[3] = 4;
  views_[2].dtype = ps::Dtype::kInt64;
  EXPECT_THAT(wrong(), HasSubstr("'mean' is of type int64, which is not a floating-point type"));
  views_[2].dtype = ps::Dtype::kFloat64;
  views_[3].dtype = ps::Dtype::kFloat64;
  EXPECT_THAT(wrong(), HasSubstr("'count' is of type float64, and int64 in the model"));
}

TEST_F(WeightsFile, ACounterThatIsAveragedIsReadAsAFloat) {
  layout_ = {};
  layout_.add("w", ps::TensorKind::kParameter, {2, 2});
  layout_.add("count", ps::TensorKind::kStatistic, {1}, ps::Dtype::kInt64);
  const std::int64_t batches = 1234;
  std::memcpy(count_.data(), &batches, sizeof batches);
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(out_[static_cast<std::size_t>(layout_.tensors()[1].offset)], 1234.0f);
}

TEST_F(WeightsFile, AFileThatIsNotThereIsSaid) {
  EXPECT_TRUE(absl::IsNotFound(read_weights(directory_ / "none", layout_, out_)));
}

}  // namespace
}  // namespace paceline::store
