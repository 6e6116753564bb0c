#include "paceline/computing/train/images.h"

#include <algorithm>

#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

// Two records: every pixel of the first is 10, of the second 20.
Bytes records(std::uint8_t first_label, std::uint8_t second_label) {
  constexpr std::ptrdiff_t kRecord = 3073;
  Bytes bytes(2 * kRecord, 10);
  std::fill(bytes.begin() + kRecord, bytes.end(), std::uint8_t{20});
  bytes[0] = first_label;
  bytes[kRecord] = second_label;
  return bytes;
}

TEST(Cifar10, ReadsEveryTrainBatchInOrderOfNames) {
  TempDir dir;
  dir.write("data_batch_2.bin", records(3, 4));
  dir.write("data_batch_1.bin", records(1, 2));
  dir.write("batches.meta.txt", bytes_of("not a batch"));
  dir.write("test_batch.bin", records(9, 0));
  const auto split = read_cifar10(dir.path());
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.labels, (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(split->test.labels, (Bytes{9, 0}));
  ASSERT_EQ(split->train.pixels.size(), 4u * 3072);
  EXPECT_EQ(split->train.pixels[3071], 10);
  EXPECT_EQ(split->train.pixels[3072], 20);
}

TEST(Cifar10, RefusesAFileCutShort) {
  TempDir dir;
  Bytes cut = records(1, 2);
  cut.pop_back();
  dir.write("data_batch_1.bin", cut);
  dir.write("test_batch.bin", records(1, 2));
  expect_error(read_cifar10(dir.path()).status(), absl::StatusCode::kInvalidArgument,
               {dir.file("data_batch_1.bin"), "6145", "3073"});
}

TEST(Cifar10, RefusesAnEmptyFile) {
  TempDir dir;
  dir.write("data_batch_1.bin", records(1, 2));
  dir.write("test_batch.bin", {});
  expect_error(read_cifar10(dir.path()).status(), absl::StatusCode::kInvalidArgument,
               {dir.file("test_batch.bin"), "0 bytes"});
}

TEST(Cifar10, RefusesALabelAboveNine) {
  TempDir dir;
  dir.write("data_batch_1.bin", records(1, 10));
  dir.write("test_batch.bin", records(1, 2));
  expect_error(read_cifar10(dir.path()).status(), absl::StatusCode::kInvalidArgument,
               {dir.file("data_batch_1.bin"), "label 10", "record 1"});
}

TEST(Cifar10, NamesWhatIsMissing) {
  TempDir dir;
  expect_error(read_cifar10(dir.path() / "nowhere").status(), absl::StatusCode::kNotFound,
               {dir.file("nowhere"), "data.source", "paceline data cifar10 " + dir.file("nowhere")});
  expect_error(read_cifar10(dir.path()).status(), absl::StatusCode::kNotFound,
               {"data_batch_*.bin", "paceline data cifar10 " + dir.path().string()});
  dir.write("data_batch_1.bin", records(1, 2));
  expect_error(read_cifar10(dir.path()).status(), absl::StatusCode::kNotFound, {dir.file("test_batch.bin")});
}

TEST(Cifar10, RefusesADirectoryCalledLikeABatch) {
  TempDir dir;
  dir.write("data_batch_1.bin", records(1, 2));
  dir.write("test_batch.bin/file", {1});
  expect_error(read_cifar10(dir.path()).status(), absl::StatusCode::kInvalidArgument, {"not a regular file"});
}

}  // namespace
}  // namespace paceline::train
