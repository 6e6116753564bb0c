#include "paceline/computing/train/text.h"

#include <numeric>

#include <torch/types.h>

#include "paceline/computing/train/testing.h"
#include "paceline/computing/train/text_set.h"

namespace paceline::train {
namespace {

Bytes counting(int size) {
  Bytes bytes(static_cast<std::size_t>(size));
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

TEST(Text, ReadsAFileUpToTheLimit) {
  TempDir dir;
  dir.write("a.txt", bytes_of("hello world"));
  EXPECT_EQ(*read_text(dir.file("a.txt"), 100), bytes_of("hello world"));
  EXPECT_EQ(*read_text(dir.file("a.txt"), 5), bytes_of("hello"));
}

TEST(Text, ReadsATreeInOrderOfPaths) {
  TempDir dir;
  dir.write("b", bytes_of("3"));
  dir.write("a/z", bytes_of("2"));
  dir.write("a/c/d", bytes_of("1"));
  EXPECT_EQ(*read_text(dir.path(), 100), bytes_of("123"));
  EXPECT_EQ(*read_text(dir.path(), 2), bytes_of("12"));
}

TEST(Text, RefusesWhatIsNoFile) {
  expect_error(read_text("/nowhere/text", 100).status(), absl::StatusCode::kNotFound, {"/nowhere/text"});
  expect_error(read_text("/dev/zero", 100).status(), absl::StatusCode::kInvalidArgument, {"/dev/zero"});
}

TEST(Headers, TakesTheNewestVersionAndItsBits) {
  TempDir dir;
  dir.write("9/vector", bytes_of("old"));
  dir.write("12/vector", bytes_of("B"));
  dir.write("12/algorithm", bytes_of("A"));
  dir.write("12/bits/c.h", bytes_of("C"));
  dir.write("12/ext/d.h", bytes_of("not read"));
  dir.write("v1/vector", bytes_of("no version"));
  EXPECT_EQ(*read_headers(dir.path(), 100), bytes_of("ABC"));
}

TEST(Headers, SaysWhatToDoWithoutThem) {
  TempDir dir;
  expect_error(read_headers(dir.path() / "none", 100).status(), absl::StatusCode::kNotFound,
               {dir.file("none"), "text:FILE"});
}

TEST(TextSet, WindowsDoNotOverlapAndTargetsAreTheNextBytes) {
  const TextSet set(std::make_shared<const Bytes>(counting(100)), 10, 31, 5);  // 21 bytes: 4 windows of 5
  EXPECT_EQ(set.size(), 4);
  EXPECT_EQ(set.classes(), 256);
  EXPECT_EQ(set.sample_shape(), (std::vector<std::int64_t>{5}));
  const std::int32_t indices[] = {3, 0};
  const Batch batch = set.batch(indices, 0);
  EXPECT_TRUE(
      torch::equal(batch.inputs, torch::tensor({{25, 26, 27, 28, 29}, {10, 11, 12, 13, 14}}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.targets, batch.inputs + 1));
}

TEST(TextSet, AWindowNeedsAByteAfterIt) {
  EXPECT_EQ(TextSet::windows(20, 5), 3);
  EXPECT_EQ(TextSet::windows(21, 5), 4);
}

}  // namespace
}  // namespace paceline::train
