#include "paceline/computing/data/npy_file.h"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/computing/data/testing/npy_header_text.h"

namespace paceline::data {
namespace {

namespace fs = std::filesystem;

class NpyFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "paceline-npy-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { fs::remove_all(dir_); }

  fs::path write(const std::string& bytes) const {
    std::ofstream(dir_ / "x.npy", std::ios::binary) << bytes;
    return dir_ / "x.npy";
  }
  void expect_refused(const fs::path& path, const std::vector<std::string>& parts) const {
    const auto file = NpyFile::open(path);
    ASSERT_FALSE(file.ok());
    const std::string message(file.status().message());
    EXPECT_EQ(message.find(path.string()), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
  }

  fs::path dir_;
};

// This process's own memory in bytes, without what it shares with the page cache.
std::int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "RssAnon:" && status >> kilobytes) return kilobytes * 1024;
  }
  return -1;
}

TEST_F(NpyFileTest, HasTheValues) {
  const std::vector<float> values = {1.5f, -2.0f, 3.0f};
  std::string bytes = npy_header_text(NpyType::kFloat32, {3});
  bytes.append(reinterpret_cast<const char*>(values.data()), 12);
  const auto file = NpyFile::open(write(bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->shape(), (std::vector<std::int64_t>{3}));
  ASSERT_EQ(file->bytes(), 12);
  EXPECT_EQ(std::memcmp(file->values(), values.data(), 12), 0);
  EXPECT_TRUE(file->check_unchanged().ok());
}

// A copy would show as memory of this process' own.
TEST_F(NpyFileTest, SharesThePagesOfALargeFile) {
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  const fs::path path = write(npy_header_text(NpyType::kUint8, {kBytes}));
  fs::resize_file(path, fs::file_size(path) + kBytes);
  const std::int64_t before = anonymous_bytes();
  ASSERT_GT(before, 0);
  const auto file = NpyFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto* values = reinterpret_cast<const std::uint8_t*>(file->values());
  EXPECT_EQ(std::accumulate(values, values + file->bytes(), 0), 0);
  EXPECT_LT(anonymous_bytes() - before, kBytes / 4);
}

TEST_F(NpyFileTest, RefusesASizeThatIsNotTheHeaders) {
  const std::string header = npy_header_text(NpyType::kInt64, {4});
  expect_refused(write(header + std::string(31, '\0')), {"31 bytes of values", "promises 32"});
  expect_refused(write(header + std::string(33, '\0')), {"33 bytes of values", "promises 32"});
  expect_refused(write(npy_header_text(NpyType::kInt64, {std::int64_t{1} << 50}) + "x"),
                 {"1 bytes of values"});
}

TEST_F(NpyFileTest, RefusesWhatIsNoFile) {
  expect_refused(dir_ / "nothing.npy", {"no such file", "numpy.save"});
  expect_refused(dir_, {"not a regular file"});
  expect_refused(write(""), {"is empty"});
  expect_refused(write("text"), {"is not an NPY file"});
  ASSERT_EQ(mkfifo((dir_ / "pipe.npy").c_str(), 0600), 0);
  expect_refused(dir_ / "pipe.npy", {"not a regular file"});
}

TEST_F(NpyFileTest, NoticesAFileThatIsWrittenTo) {
  const std::string bytes = npy_header_text(NpyType::kUint8, {4}) + "abcd";
  const fs::path path = write(bytes);
  const auto file = NpyFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  // A new file of the name is another file.
  std::ofstream(dir_ / "new.npy", std::ios::binary) << bytes;
  fs::rename(dir_ / "new.npy", path);
  EXPECT_TRUE(file->check_unchanged().ok());
  const auto second = NpyFile::open(path);
  ASSERT_TRUE(second.ok()) << second.status();
  fs::resize_file(path, 10);
  const absl::Status changed = second->check_unchanged();
  EXPECT_FALSE(changed.ok());
  EXPECT_NE(changed.message().find("was written to"), std::string::npos) << changed;
}

}  // namespace
}  // namespace paceline::data
