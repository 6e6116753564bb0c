#include "paceline/computing/train/npy_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <torch/types.h>

#include "paceline/computing/data/testing/npy_header_text.h"
#include "paceline/computing/train/local_model.h"
#include "paceline/computing/train/model.h"
#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

using data::NpyType;

template <class T>
Bytes npy(NpyType type, const std::vector<std::int64_t>& shape, const std::vector<T>& values) {
  Bytes bytes = bytes_of(data::npy_header_text(type, shape));
  const auto* raw = reinterpret_cast<const std::uint8_t*>(values.data());
  bytes.insert(bytes.end(), raw, raw + values.size() * sizeof(T));
  return bytes;
}

Bytes label_file(const std::vector<std::int64_t>& values) {
  return npy(NpyType::kInt64, {static_cast<std::int64_t>(values.size())}, values);
}

// Samples of one value each: 0, 1, 2, …
Bytes float_file(const std::vector<std::int64_t>& shape) {
  std::vector<float> values(static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
  std::iota(values.begin(), values.end(), 0.0f);
  return npy(NpyType::kFloat32, shape, values);
}

// Good files: four samples of three features to train on and two to test with, of three classes.
class NpySetTest : public ::testing::Test {
 protected:
  NpySetTest() {
    dir_.write("x.npy", float_file({4, 3}));
    dir_.write("y.npy", label_file({0, 2, 1, 0}));
    dir_.write("x_test.npy", float_file({2, 3}));
    dir_.write("y_test.npy", label_file({2, 0}));
  }
  absl::StatusOr<DataSets> load() const {
    config::DataConfig data;
    data.source = "npy:" + dir_.path().string();
    return load_data(data, 0);
  }
  void expect_refused(const char* file, const std::vector<std::string>& parts) const {
    const absl::Status status = load().status();
    ASSERT_FALSE(status.ok());
    std::vector<std::string> all = parts;
    all.push_back(dir_.file(file));
    expect_error(status, status.code(), all);
  }

  TempDir dir_;
};

TEST_F(NpySetTest, ReadsSamplesAndLabels) {
  const auto sets = load();
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 4);
  EXPECT_EQ(sets->test->size(), 2);
  EXPECT_EQ(sets->train->classes(), 3);
  EXPECT_EQ(sets->test->classes(), 3);
  EXPECT_EQ(sets->train->sample_shape(), (std::vector<std::int64_t>{1, 1, 3}));
  const std::int32_t wanted[] = {2, 0};
  const Batch batch = sets->train->batch(wanted, 0);
  EXPECT_TRUE(
      torch::equal(batch.inputs.reshape({2, 3}), torch::tensor({{6.0f, 7.0f, 8.0f}, {0.0f, 1.0f, 2.0f}})));
  EXPECT_TRUE(torch::equal(batch.targets, torch::tensor({1, 0}, torch::kInt64)));
}

TEST_F(NpySetTest, ReadsDoublesAndScalesBytes) {
  dir_.write("x.npy", npy<double>(NpyType::kFloat64, {4, 1}, {0.25, -1, 2, 3}));
  dir_.write("x_test.npy", npy<double>(NpyType::kFloat64, {2, 1}, {4, 5}));
  const std::int32_t all[] = {0, 1, 2, 3};
  auto sets = load();
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_TRUE(
      torch::equal(sets->train->batch(all, 0).inputs.flatten(), torch::tensor({0.25f, -1.0f, 2.0f, 3.0f})));
  dir_.write("x.npy", npy<std::uint8_t>(NpyType::kUint8, {4, 1}, {0, 51, 204, 255}));
  dir_.write("x_test.npy", npy<std::uint8_t>(NpyType::kUint8, {2, 1}, {4, 5}));
  sets = load();
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_TRUE(
      torch::equal(sets->train->batch(all, 0).inputs.flatten(), torch::tensor({0.0f, 0.2f, 0.8f, 1.0f})));
}

TEST_F(NpySetTest, ReadsLabelsOfEveryIntegerType) {
  const std::vector<int> wanted = {0, 2, 1, 0};
  const auto write = [&]<class T>(NpyType type, T) {
    dir_.write("y.npy", npy(type, {4}, std::vector<T>(wanted.begin(), wanted.end())));
    const auto sets = load();
    ASSERT_TRUE(sets.ok()) << sets.status();
    const std::int32_t all[] = {0, 1, 2, 3};
    EXPECT_TRUE(torch::equal(sets->train->batch(all, 0).targets, torch::tensor({0, 2, 1, 0}, torch::kInt64)));
  };
  write(NpyType::kUint8, std::uint8_t{});
  write(NpyType::kUint16, std::uint16_t{});
  write(NpyType::kUint32, std::uint32_t{});
  write(NpyType::kUint64, std::uint64_t{});
  write(NpyType::kInt8, std::int8_t{});
  write(NpyType::kInt16, std::int16_t{});
  write(NpyType::kInt32, std::int32_t{});
}

TEST_F(NpySetTest, RefusesNumbersThatAreNotFinite) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  dir_.write("x.npy", npy<float>(NpyType::kFloat32, {4, 3}, {0, 1, 2, 3, 4, none, 6, 7, 8, 9, 10, 11}));
  expect_refused("x.npy", {"data.source: ", "sample 1 holds nan"});
  dir_.write("x.npy", float_file({4, 3}));
  dir_.write("x_test.npy", npy<float>(NpyType::kFloat32, {2, 3}, {0, 1, 2, 3, 4, HUGE_VALF}));
  expect_refused("x_test.npy", {"sample 1 holds inf"});
  dir_.write("x.npy", npy<double>(NpyType::kFloat64, {4, 1}, {0.25, -1, 2, -HUGE_VAL}));
  expect_refused("x.npy", {"sample 3 holds -inf"});
}

// Whatever the shape of samples, what takes images takes them.
TEST_F(NpySetTest, FitsTheImageModels) {
  for (const std::vector<std::int64_t>& sample :
       {std::vector<std::int64_t>{13}, {9, 7}, {2, 9, 7}, {3, 64, 64}}) {
    std::vector<std::int64_t> train = {4};
    train.insert(train.end(), sample.begin(), sample.end());
    std::vector<std::int64_t> test = train;
    test[0] = 2;
    dir_.write("x.npy", float_file(train));
    dir_.write("x_test.npy", float_file(test));
    const auto sets = load();
    ASSERT_TRUE(sets.ok()) << sets.status();
    const std::int32_t all[] = {0, 1, 2, 3};
    const Batch batch = sets->train->batch(all, 0);
    for (const char* name : {"mlp", "cnn", "alexnet-small", "resnet20", "vgg11"}) {
      const auto model = LocalModel::create(model_named(name), sets->train->sample_shape(), 3, 1);
      ASSERT_TRUE(model.ok()) << name << " " << model.status();
      std::vector<float> weights(static_cast<std::size_t>((*model)->layout().size()));
      std::vector<float> gradients(weights.size());
      (*model)->initial_weights(weights);
      const auto step =
          (*model)->step(batch, tensor_pointers<const float>((*model)->layout(), weights.data()),
                         tensor_pointers<float>((*model)->layout(), gradients.data()), 1);
      EXPECT_TRUE(step.ok()) << name << " " << step.status();
    }
  }
}

TEST_F(NpySetTest, NamesWhatIsMissing) {
  for (const char* file : {"y_test.npy", "x_test.npy", "y.npy", "x.npy"}) {
    std::filesystem::remove(dir_.path() / file);
    expect_refused(file, {"no such file"});
  }
  std::filesystem::remove_all(dir_.path());
  expect_error(load().status(), absl::StatusCode::kNotFound,
               {dir_.path().string() + ": no such directory", "x.npy"});
}

TEST_F(NpySetTest, RefusesLengthsThatDiffer) {
  dir_.write("y.npy", label_file({0, 2, 1}));
  expect_refused("y.npy", {"3 labels", "x.npy has 4 samples"});
}

TEST_F(NpySetTest, RefusesLabelsOutsideTheClasses) {
  dir_.write("y_test.npy", label_file({2, 3}));
  expect_refused("y_test.npy", {"label 3 of sample 1", "from 0 to 2"});
  dir_.write("y.npy", label_file({0, -1, 0, 0}));
  expect_refused("y.npy", {"label -1 of sample 1", "0, 1, 2"});
  dir_.write("y.npy", label_file({0, 0, 0, 1'000'000'000'000}));
  expect_refused("y.npy", {"label 1000000000000 of sample 3"});
  dir_.write("y.npy", npy<std::uint64_t>(NpyType::kUint64, {4}, {0, 0, ~std::uint64_t{0}, 0}));
  expect_refused("y.npy", {"of sample 2"});
}

TEST_F(NpySetTest, RefusesLabelsThatAreNone) {
  dir_.write("y.npy", float_file({4}));
  expect_refused("y.npy", {"float32 labels", "astype"});
  dir_.write("y.npy", npy<std::int64_t>(NpyType::kInt64, {4, 1}, {0, 0, 0, 0}));
  expect_refused("y.npy", {"shape [4, 1]", "reshape(-1)"});
}

TEST_F(NpySetTest, RefusesSamplesThatNoModelTakes) {
  dir_.write("x.npy", label_file({0, 1, 2, 3}));
  expect_refused("x.npy", {"int64 samples", "uint8", "float32"});
  dir_.write("x.npy", float_file({4}));
  expect_refused("x.npy", {"shape [4]", "[n, features]"});
  dir_.write("x.npy", float_file({4, 1, 1, 1, 1}));
  expect_refused("x.npy", {"shape [4, 1, 1, 1, 1]"});
  dir_.write("x.npy", float_file({0, 3}));
  expect_refused("x.npy", {"shape [0, 3]", "nothing"});
}

TEST_F(NpySetTest, RefusesTestSamplesUnlikeThose) {
  dir_.write("x_test.npy", float_file({2, 4}));
  expect_refused("x_test.npy", {"shape [2, 4]", "has [4, 3]"});
  dir_.write("x_test.npy", npy<std::uint8_t>(NpyType::kUint8, {2, 3}, {0, 1, 2, 3, 4, 5}));
  expect_refused("x_test.npy", {"uint8 samples", "has float32"});
}

TEST_F(NpySetTest, OtherValuesHaveAnotherDigest) {
  const std::uint64_t before = load()->train->digest();
  EXPECT_EQ(load()->train->digest(), before);
  dir_.write("y.npy", label_file({0, 2, 1, 1}));
  const std::uint64_t other_labels = load()->train->digest();
  EXPECT_NE(other_labels, before);
  Bytes changed = float_file({4, 3});
  changed.back() ^= 1;
  dir_.write("x.npy", changed);
  EXPECT_NE(load()->train->digest(), other_labels);
}

// The digest of a large file covers parts of it, the last byte among them.
TEST_F(NpySetTest, HashesBothEndsOfALargeFile) {
  constexpr std::int64_t kFeatures = std::int64_t{20} << 20;
  const auto digest_with = [&](std::int64_t changed) {
    std::filesystem::remove(dir_.path() / "x.npy");
    dir_.write("x.npy", bytes_of(data::npy_header_text(NpyType::kUint8, {4, kFeatures})));
    const auto header = static_cast<std::int64_t>(std::filesystem::file_size(dir_.path() / "x.npy"));
    std::filesystem::resize_file(dir_.path() / "x.npy", static_cast<std::uintmax_t>(header + 4 * kFeatures));
    std::fstream file(dir_.path() / "x.npy", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(header + changed);
    file.put(1);
    file.close();
    dir_.write("x_test.npy", bytes_of(data::npy_header_text(NpyType::kUint8, {2, kFeatures})));
    std::filesystem::resize_file(dir_.path() / "x_test.npy",
                                 static_cast<std::uintmax_t>(header + 2 * kFeatures));
    const auto sets = load();
    return sets.ok() ? sets->train->digest() : 0;
  };
  const std::uint64_t first = digest_with(0);
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, digest_with(4 * kFeatures - 1));
}

TEST_F(NpySetTest, NoticesAFileThatIsWrittenTo) {
  config::DataConfig data;
  data.source = "npy:" + dir_.path().string();
  data.train_samples = 2;  // a part of the file is watched like the whole
  const auto sets = load_data(data, 0);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_TRUE(sets->train->check_unchanged().ok());
  dir_.write("x.npy", float_file({2, 3}));
  expect_error(sets->train->check_unchanged(), absl::StatusCode::kFailedPrecondition,
               {dir_.file("x.npy"), "was written to"});
  EXPECT_TRUE(sets->test->check_unchanged().ok());
}

}  // namespace
}  // namespace paceline::train
