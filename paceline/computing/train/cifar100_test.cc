#include "paceline/computing/train/images.h"

#include <algorithm>

#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

constexpr std::ptrdiff_t kRecord = 3074;

// Two records: every pixel of the first is 10, of the second 20; both of kind 7.
Bytes two_labels(std::uint8_t first_label, std::uint8_t second_label) {
  Bytes bytes(2 * kRecord, 10);
  std::fill(bytes.begin() + kRecord, bytes.end(), std::uint8_t{20});
  bytes[0] = bytes[kRecord] = 7;
  bytes[1] = first_label;
  bytes[kRecord + 1] = second_label;
  return bytes;
}

TEST(Cifar100, ReadsTheSecondLabelOfEachRecord) {
  TempDir dir;
  dir.write("train.bin", two_labels(99, 0));
  dir.write("test.bin", two_labels(20, 50));
  const auto split = read_cifar100(dir.path());
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.labels, (Bytes{99, 0}));
  EXPECT_EQ(split->test.labels, (Bytes{20, 50}));
  ASSERT_EQ(split->train.pixels.size(), 2u * 3072);
  EXPECT_EQ(split->train.pixels[0], 10);
  EXPECT_EQ(split->train.pixels[3071], 10);
  EXPECT_EQ(split->train.pixels[3072], 20);
}

TEST(Cifar100, HasAHundredClassesAndMayBeAugmented) {
  TempDir dir;
  dir.write("train.bin", two_labels(99, 0));
  dir.write("test.bin", two_labels(20, 50));
  config::DataConfig data;
  data.source = "cifar100:" + dir.path().string();
  data.augment = true;
  const auto sets = load_data(data, 0);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->classes(), 100);
  EXPECT_EQ(sets->test->classes(), 100);
  EXPECT_EQ(sets->train->sample_shape(), (std::vector<std::int64_t>{3, 32, 32}));
}

TEST(Cifar100, RefusesAFileThatIsCutShortOrOfCifar10) {
  TempDir dir;
  Bytes cut = two_labels(1, 2);
  cut.pop_back();
  dir.write("train.bin", cut);
  expect_error(read_cifar100(dir.path()).status(), absl::StatusCode::kInvalidArgument,
               {dir.file("train.bin"), "6147", "3074", "CIFAR-100"});
  dir.write("train.bin", Bytes(2 * 3073, 1));
  expect_error(read_cifar100(dir.path()).status(), absl::StatusCode::kInvalidArgument, {"6146", "3074"});
}

TEST(Cifar100, RefusesALabelAbove99) {
  TempDir dir;
  dir.write("train.bin", two_labels(1, 100));
  expect_error(read_cifar100(dir.path()).status(), absl::StatusCode::kInvalidArgument,
               {dir.file("train.bin"), "label 100", "record 1", "0 to 99"});
}

TEST(Cifar100, NamesWhatIsMissing) {
  TempDir dir;
  expect_error(read_cifar100(dir.path() / "nowhere").status(), absl::StatusCode::kNotFound,
               {dir.file("nowhere"), "CIFAR-100", "paceline data cifar100 " + dir.file("nowhere")});
  expect_error(
      read_cifar100(dir.path()).status(), absl::StatusCode::kNotFound,
      {dir.path().string() + ": no train.bin in it", "paceline data cifar100 " + dir.path().string()});
}

}  // namespace
}  // namespace paceline::train
