#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/images.h"
#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

Bytes header(std::uint8_t dimensions, std::initializer_list<std::uint32_t> extents) {
  Bytes bytes = {0, 0, 8, dimensions};
  for (std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(extent >> shift));
  }
  return bytes;
}

// `count` images, image i all pixels `first` + i.
Bytes images(std::uint32_t count, std::uint8_t first = 0) {
  Bytes bytes = header(3, {count, 28, 28});
  for (std::uint32_t i = 0; i < count; ++i)
    bytes.insert(bytes.end(), 784, static_cast<std::uint8_t>(first + i));
  return bytes;
}

Bytes labels(const Bytes& values) {
  Bytes bytes = header(1, {static_cast<std::uint32_t>(values.size())});
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

absl::StatusOr<ImageSplit> read_with(const Bytes& image_file, const Bytes& label_file) {
  TempDir dir;
  dir.write("t10k-images-idx3-ubyte", image_file);
  dir.write("t10k-labels-idx1-ubyte", label_file);
  return read_mnist(dir.path());
}

TEST(Mnist, SplitsTheTestFilesWhenTheyAreAlone) {
  const auto split = read_with(images(10), labels({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.labels, (Bytes{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(split->test.labels, (Bytes{8, 9}));
  EXPECT_EQ(split->train.pixels.size(), 8u * 784);
  EXPECT_EQ(split->test.pixels.size(), 2u * 784);
  EXPECT_EQ(split->test.pixels.front(), 8);
  EXPECT_TRUE(split->both_of_test_files);
}

TEST(Mnist, SaysThatOnlyTheTestFilesAreThere) {
  TempDir dir;
  dir.write("t10k-images-idx3-ubyte", images(10));
  dir.write("t10k-labels-idx1-ubyte", labels({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  config::DataConfig data;
  data.source = "mnist:" + dir.path().string();
  const auto sets = load_data(data, 0);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_NE(sets->note.find("only MNIST's test files are here: 8 of their images train and 2 test"),
            std::string::npos)
      << sets->note;
}

TEST(Mnist, KeepsTheTestFilesWholeBesideTrainFiles) {
  TempDir dir;
  dir.write("train-images-idx3-ubyte", images(3, 100));
  dir.write("train-labels-idx1-ubyte", labels({7, 8, 9}));
  dir.write("t10k-images-idx3-ubyte", images(2));
  dir.write("t10k-labels-idx1-ubyte", labels({5, 6}));
  const auto split = read_mnist(dir.path());
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.labels, (Bytes{7, 8, 9}));
  EXPECT_EQ(split->train.pixels.front(), 100);
  EXPECT_EQ(split->test.labels, (Bytes{5, 6}));
  EXPECT_FALSE(split->both_of_test_files);
}

TEST(Mnist, ReadsGzip) {
  TempDir dir;
  dir.write_gzip("t10k-images-idx3-ubyte.gz", images(5));
  dir.write_gzip("t10k-labels-idx1-ubyte.gz", labels({1, 2, 3, 4, 5}));
  const auto split = read_mnist(dir.path());
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.labels, (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(split->test.pixels, Bytes(784, 4));
}

TEST(Mnist, RefusesADamagedGzip) {
  TempDir dir;
  dir.write_gzip("t10k-images-idx3-ubyte.gz", images(5));
  dir.write("t10k-labels-idx1-ubyte", labels({1, 2, 3, 4, 5}));
  Bytes packed;
  ASSERT_TRUE(append_file(dir.file("t10k-images-idx3-ubyte.gz"), kNoLimit, packed).ok());
  packed.resize(packed.size() / 2);
  dir.write("t10k-images-idx3-ubyte.gz", packed);
  expect_error(read_mnist(dir.path()).status(), absl::StatusCode::kInvalidArgument,
               {"t10k-images-idx3-ubyte.gz"});
}

TEST(Mnist, RefusesABadMagicNumber) {
  Bytes wrong = images(5);
  wrong[3] = 1;
  expect_error(read_with(wrong, labels({1, 2, 3, 4, 5})).status(), absl::StatusCode::kInvalidArgument,
               {"t10k-images-idx3-ubyte", "0x00000801", "0x00000803"});
}

TEST(Mnist, RefusesAFileCutShort) {
  Bytes cut = images(5);
  cut.resize(cut.size() - 10);
  expect_error(read_with(cut, labels({1, 2, 3, 4, 5})).status(), absl::StatusCode::kInvalidArgument,
               {"10 bytes short", "3920"});
  expect_error(read_with({0, 0, 8}, labels({1})).status(), absl::StatusCode::kInvalidArgument,
               {"13 bytes short"});
}

TEST(Mnist, RefusesTrailingBytes) {
  Bytes longer = images(5);
  longer.push_back(0);
  expect_error(read_with(longer, labels({1, 2, 3, 4, 5})).status(), absl::StatusCode::kInvalidArgument,
               {"goes on after the 3920 bytes"});
}

// A header that promises 3 TB, or more than 64 bits hold, is refused before memory is taken for it.
TEST(Mnist, DoesNotBelieveAHugeHeader) {
  Bytes huge = header(3, {0xffffffff, 28, 28});
  expect_error(read_with(huge, labels({1})).status(), absl::StatusCode::kInvalidArgument, {"short"});
  huge = header(3, {0xffffffff, 0xffffffff, 0xffffffff});
  expect_error(read_with(huge, labels({1})).status(), absl::StatusCode::kInvalidArgument,
               {"than any file holds"});
}

TEST(Mnist, RefusesCountsThatDiffer) {
  expect_error(read_with(images(5), labels({1, 2, 3, 4})).status(), absl::StatusCode::kInvalidArgument,
               {"5 images but 4 labels"});
}

TEST(Mnist, RefusesALabelAboveNine) {
  expect_error(read_with(images(5), labels({1, 2, 3, 4, 200})).status(), absl::StatusCode::kInvalidArgument,
               {"label 200", "image 4"});
}

TEST(Mnist, RefusesImagesOfAnotherSize) {
  Bytes bytes = header(3, {5, 14, 28});
  bytes.insert(bytes.end(), 5 * 14 * 28, 0);
  expect_error(read_with(bytes, labels({1, 2, 3, 4, 5})).status(), absl::StatusCode::kInvalidArgument,
               {"14 x 28"});
}

TEST(Mnist, RefusesTooFewToSplit) {
  expect_error(read_with(images(4), labels({1, 2, 3, 4})).status(), absl::StatusCode::kInvalidArgument,
               {"train-*"});
}

TEST(Mnist, NamesWhatIsMissing) {
  TempDir dir;
  expect_error(read_mnist(dir.path() / "nowhere").status(), absl::StatusCode::kNotFound,
               {dir.file("nowhere"), "paceline data mnist " + dir.file("nowhere")});
  expect_error(read_mnist(dir.path()).status(), absl::StatusCode::kNotFound,
               {"t10k-images-idx3-ubyte.gz", "paceline data mnist " + dir.path().string()});
}

}  // namespace
}  // namespace paceline::train
