#include "paceline/computing/data/idx_files.h"

#include <sys/resource.h>

#include <csignal>

#include <gtest/gtest.h>

#include "paceline/computing/data/digits.h"
#include "paceline/computing/data/testing/files.h"

namespace paceline::data {
namespace {

std::string unzipped(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string all(60'000'000, '\0');
  all.resize(
      static_cast<std::size_t>(std::max(0, gzread(file, all.data(), static_cast<unsigned>(all.size())))));
  gzclose(file);
  return all;
}

TEST(IdxFiles, HoldTheDrawnDigits) {
  testing::TestFolder folder;
  const auto names = write_digits(folder.path());
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->size(), 4u);
  const std::string images = unzipped(folder / "t10k-images-idx3-ubyte.gz");
  const std::string labels = unzipped(folder / "t10k-labels-idx1-ubyte.gz");
  ASSERT_EQ(images.size(), 16u + 10'000 * 784);
  ASSERT_EQ(labels.size(), 8u + 10'000);
  EXPECT_EQ(images.substr(0, 8), std::string("\0\0\x08\x03\0\0\x27\x10", 8));
  const DrawnDigit last = draw_digit(DigitsHalf::kTest, 9'999);
  EXPECT_EQ(static_cast<std::uint8_t>(labels.back()), last.label);
  EXPECT_EQ(images.substr(images.size() - 784), std::string(last.pixels.begin(), last.pixels.end()));
}

TEST(IdxFiles, SayWhereTheyCannotBeWritten) {
  const absl::Status status = write_digits("/no/such/folder").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            "/no/such/folder/train-images-idx3-ubyte.gz: cannot be written: No such file or directory");
}

TEST(IdxFiles, SayThatTheSystemAllowsNoFileOfThatLength) {
  testing::TestFolder folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{100'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &little);
  const absl::Status status = write_digits(folder.path()).status();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(status.message().find("ulimit -f allows no file of that length; raise it and try again"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace paceline::data
