#include <numeric>

#include <fmt/format.h>
#include <torch/types.h>

#include "paceline/computing/train/data_sources.h"
#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

config::DataConfig source(const std::string& name) {
  config::DataConfig data;
  data.source = name;
  return data;
}

// 1,000 bytes: 900 train, 100 test.
config::DataConfig thousand_bytes(const TempDir& dir) {
  dir.write("text", Bytes(1000, 'x'));
  return source("text:" + dir.file("text"));
}

TEST(LoadData, TestsOnTheLastTenthOfAText) {
  TempDir dir;
  const auto sets = load_data(thousand_bytes(dir), 10);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 89);
  EXPECT_EQ(sets->test->size(), 9);
}

TEST(LoadData, KeepsTheFirstSamplesOnly) {
  TempDir dir;
  config::DataConfig data = thousand_bytes(dir);
  data.train_samples = 5;
  data.test_samples = 9;
  const auto sets = load_data(data, 10);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 5);
  EXPECT_EQ(sets->test->size(), 9);
  EXPECT_EQ(sets->train->sample_shape(), (std::vector<std::int64_t>{10}));
}

// 89 samples train and 9 test. With 80 trained on the other 9 test too, each with its own bytes.
TEST(LoadData, TestsOnSamplesLeftOutOfTheTrainingSetToo) {
  TempDir dir;
  Bytes bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i / 10);
  dir.write("text", bytes);
  config::DataConfig data = source("text:" + dir.file("text"));
  const auto all = load_data(data, 10);
  data.train_samples = 80;
  data.test_rest = true;
  const auto sets = load_data(data, 10);
  ASSERT_TRUE(sets.ok()) << sets.status();
  ASSERT_EQ(sets->train->size(), 80);
  ASSERT_EQ(sets->test->size(), 18);
  const std::vector<std::int32_t> mixed{17, 0, 9, 8};
  const Batch found = sets->test->batch(mixed, 0);
  const Batch of_test = all->test->batch(std::vector<std::int32_t>{0, 8}, 0);
  const Batch of_rest = all->train->batch(std::vector<std::int32_t>{88, 80}, 0);
  EXPECT_TRUE(torch::equal(found.inputs[0], of_rest.inputs[0]));
  EXPECT_TRUE(torch::equal(found.inputs[1], of_test.inputs[0]));
  EXPECT_TRUE(torch::equal(found.inputs[2], of_rest.inputs[1]));
  EXPECT_TRUE(torch::equal(found.targets[3], of_test.targets[1]));
  data.test_samples = 12;
  EXPECT_EQ(load_data(data, 10)->test->size(), 12);
}

TEST(LoadData, RefusesToTestOnARestThatIsNone) {
  TempDir dir;
  config::DataConfig data = thousand_bytes(dir);
  data.test_rest = true;
  for (const std::int64_t trained : {0, 89, 90}) {
    data.train_samples = trained;
    expect_error(load_data(data, 10).status(), absl::StatusCode::kInvalidArgument,
                 {"data.test_rest = true", std::to_string(trained)});
  }
}

TEST(LoadData, OtherBytesHaveAnotherDigest) {
  const auto digest_of = [](const std::string& text) {
    TempDir dir;
    dir.write("text", bytes_of(text));
    return load_data(source("text:" + dir.file("text")), 10)->train->digest();
  };
  const std::string text(1000, 'x');
  std::string other = text;
  other[400] = 'y';
  EXPECT_EQ(digest_of(text), digest_of(text));
  EXPECT_NE(digest_of(text), digest_of(other));
}

TEST(LoadData, RefusesMoreSamplesThanThereAre) {
  TempDir dir;
  config::DataConfig data = thousand_bytes(dir);
  data.train_samples = 90;
  expect_error(load_data(data, 10).status(), absl::StatusCode::kInvalidArgument,
               {"data.train_samples = 90", "89"});
  data.train_samples = 0;
  data.test_samples = -1;
  expect_error(load_data(data, 10).status(), absl::StatusCode::kInvalidArgument, {"data.test_samples = -1"});
}

TEST(LoadData, RefusesTooLittleText) {
  TempDir dir;
  config::DataConfig data = thousand_bytes(dir);
  EXPECT_TRUE(load_data(data, 99).ok());
  expect_error(load_data(data, 100).status(), absl::StatusCode::kInvalidArgument,
               {"1000 bytes", "model.context = 100"});
  expect_error(load_data(data, 0).status(), absl::StatusCode::kInvalidArgument, {"model.context = 0"});
  data.max_bytes = -1;
  expect_error(load_data(data, 10).status(), absl::StatusCode::kInvalidArgument, {"data.max_bytes"});
}

TEST(LoadData, RefusesAnUnknownSource) {
  const auto refused = [](const std::string& name, const std::vector<std::string>& parts) {
    expect_error(load_data(source(name), 10).status(), absl::StatusCode::kInvalidArgument, parts);
  };
  refused("", {"data.source: '' is unknown; write one of: \"digits\""});
  refused("http://x", {"data.source: 'http' is unknown; write one of: \"digits\""});
  refused("cifr10:x", {"data.source: 'cifr10' is unknown; did you mean \"cifar10:DIR\"?"});
  refused("cifar10", {"data.source: name a folder after the colon: \"cifar10:DIR\""});
  for (const std::string name : {"mnist", "npy"})
    refused(name + ":", {"data.source: name a folder after the colon: \"" + name + ":DIR\""});
  refused("text:", {"data.source: name a file or a folder after the colon: \"text:FILE-or-DIR\""});
  for (const std::string name : {"headers", "digits"})
    refused(name + ":x", {"'" + name + "' names no file; write \"" + name + "\""});
}

TEST(LoadData, AFileThatCannotBeReadIsOfTheKeyThatNamedIt) {
  expect_error(load_data(source("text:/no/such"), 10).status(), absl::StatusCode::kNotFound,
               {"data.source: /no/such: no such file"});
}

// The message and the page list each line of the table.
TEST(LoadData, EverySourceIsInTheMessageAndInTheDocument) {
  const std::string message(load_data(source("?"), 10).status().message());
  std::ifstream page("docs/job.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  for (const DataSource* one : data_sources()) {
    EXPECT_NE(message.find(fmt::format("\"{}\"", one->form)), std::string::npos) << message;
    EXPECT_NE(text.find(fmt::format("`{}`", one->form)), std::string::npos) << one->form << " in docs/job.md";
  }
}

TEST(LoadData, AugmentsImagesInColourOnly) {
  config::DataConfig data = source("headers");
  data.augment = true;
  expect_error(load_data(data, 10).status(), absl::StatusCode::kInvalidArgument, {"data.augment"});
}

TEST(LoadData, ReadsTheHeadersOfThisMachine) {
  PACELINE_SKIP_WITHOUT("/usr/include/c++");
  const auto sets = load_data(source("headers"), 64);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_GT(sets->train->size(), 10000);
}

TEST(LoadData, ReadsTheRealCifar10) {
  PACELINE_SKIP_WITHOUT("../shared/data/cifar10");
  config::DataConfig data = source("cifar10:../shared/data/cifar10");
  data.augment = true;
  const auto sets = load_data(data, 0);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size() % 10000, 0);
  std::vector<std::int32_t> indices(1000);
  std::iota(indices.begin(), indices.end(), 0);
  // The constants fit the data: about zero mean and unit deviation. The test set is never augmented.
  const Batch test = sets->test->batch(indices, 1);
  EXPECT_TRUE(torch::equal(test.inputs, sets->test->batch(indices, 2).inputs));
  EXPECT_NEAR(test.inputs.mean().item<double>(), 0, 0.05);
  EXPECT_NEAR(test.inputs.std().item<double>(), 1, 0.05);
  EXPECT_FALSE(torch::equal(sets->train->batch(indices, 1).inputs, sets->train->batch(indices, 2).inputs));
}

TEST(LoadData, ReadsTheRealMnist) {
  PACELINE_SKIP_WITHOUT("../shared/data/mnist");
  const auto sets = load_data(source("mnist:../shared/data/mnist"), 0);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 8000);
  EXPECT_EQ(sets->test->size(), 2000);
  std::vector<std::int32_t> indices(1000);
  std::iota(indices.begin(), indices.end(), 0);
  const Batch batch = sets->train->batch(indices, 0);
  EXPECT_NEAR(batch.inputs.mean().item<double>(), 0, 0.1);
  EXPECT_NEAR(batch.inputs.std().item<double>(), 1, 0.1);
  EXPECT_EQ(batch.targets[0].item<int>(), 7);  // the well-known first test digit
}

TEST(LoadData, ReadsTheRealText) {
  PACELINE_SKIP_WITHOUT("../shared/data/text");
  const auto sets = load_data(source("text:../shared/data/text"), 64);
  ASSERT_TRUE(sets.ok()) << sets.status();
  const std::int32_t first[] = {0};
  const Batch batch = sets->train->batch(first, 0);
  EXPECT_EQ(batch.inputs[0][0].item<int>(), 'F');  // "First Citizen:"
  EXPECT_EQ(batch.targets[0][0].item<int>(), 'i');
}

}  // namespace
}  // namespace paceline::train
