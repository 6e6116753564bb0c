#include "paceline/records/store/line_file.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

TEST(LineFile, GrowsByLines) {
  const TestDirectory directory;
  {
    auto lines = LineFile::open(directory / "lines");
    ASSERT_TRUE(lines.ok());
    EXPECT_TRUE(lines->append_line("{\"a\": 1}").ok());
  }
  auto lines = LineFile::open(directory / "lines");
  EXPECT_TRUE(lines->append_line("").ok());
  EXPECT_EQ(*read_file(directory / "lines", 100), "{\"a\": 1}\n\n");
}

TEST(LineFile, ATornEndIsCutOff) {
  const TestDirectory directory;
  for (const std::size_t whole : {0u, 1u, 4095u, 4096u, 10000u}) {
    for (const std::size_t torn : {0u, 1u, 4095u, 4096u, 9000u}) {
      const std::string kept = whole == 0 ? "" : std::string(whole - 1, 'x') + '\n';
      put_bytes(directory / "lines", kept + std::string(torn, 'y'));
      auto lines = LineFile::open(directory / "lines");
      ASSERT_TRUE(lines.ok());
      ASSERT_TRUE(lines->append_line("z").ok());
      EXPECT_EQ(*read_file(directory / "lines", 100000), kept + "z\n") << whole << " " << torn;
    }
  }
}

TEST(LineFile, ALineBreakIsRefused) {
  const TestDirectory directory;
  auto lines = LineFile::open(directory / "lines");
  EXPECT_TRUE(absl::IsInvalidArgument(lines->append_line("a\nb")));
  EXPECT_EQ(*read_file(directory / "lines", 100), "");
}

TEST(LineFile, NeitherALinkNorAPipeIsWritten) {
  const TestDirectory directory;
  put_bytes(directory / "elsewhere", "a torn end");
  std::filesystem::create_symlink(directory / "elsewhere", directory / "link");
  EXPECT_TRUE(absl::IsInvalidArgument(LineFile::open(directory / "link").status()));
  EXPECT_EQ(*read_file(directory / "elsewhere", 100), "a torn end");
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(LineFile::open(directory / "pipe").status()));
}

TEST(LineFile, AFullDiskIsAnErrorThatSaysSo) {
  auto lines = LineFile::open("/dev/full");
  ASSERT_TRUE(lines.ok());
  const auto status = lines->append_line("a");
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("/dev/full: the disk is full"));
}

}  // namespace
}  // namespace paceline::store
