// Archives made here, as tar makes them.
#include "paceline/computing/data/tar_gz.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "paceline/computing/data/testing/files.h"

namespace paceline::data {
namespace {

using testing::make_tar_gz;
using testing::read_all;
using testing::TestFolder;
using testing::write_all;

TEST(TarGz, OnlyTheWantedFilesWithoutTheirFolders) {
  TestFolder folder;
  const std::string large(100'000, 'x');
  make_tar_gz(folder / "a.tar.gz",
              {{"set/readme.txt", "words"}, {"set/one.bin", large}, {"set/two.bin", ""}});
  ASSERT_TRUE(unpack_tar_gz(folder / "a.tar.gz", {"two.bin", "one.bin"}, folder.path()).ok());
  EXPECT_EQ(read_all(folder / "one.bin"), large);
  EXPECT_EQ(read_all(folder / "two.bin"), "");
  EXPECT_FALSE(std::filesystem::exists(folder / "readme.txt"));
}

TEST(TarGz, ANameThatLeadsElsewhereStaysInTheFolder) {
  TestFolder folder;
  std::filesystem::create_directory(folder / "in");
  make_tar_gz(folder / "a.tar.gz", {{"../../one.bin", "x"}});
  ASSERT_TRUE(unpack_tar_gz(folder / "a.tar.gz", {"one.bin"}, folder / "in").ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "in/one.bin"));
  EXPECT_FALSE(std::filesystem::exists(folder / "one.bin"));
}

TEST(TarGz, ReportsAMissingDamagedOrShortArchive) {
  TestFolder folder;
  const std::filesystem::path archive = folder / "a.tar.gz";
  make_tar_gz(archive, {{"one.bin", std::string(3000, 'y')}});
  const std::string whole = read_all(archive);
  const auto error = [&](const std::string& name) {
    const absl::Status status = unpack_tar_gz(archive, {name}, folder.path());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_NE(error("other.bin").find("other.bin is not in"), std::string::npos);
  write_all(archive, whole.substr(0, whole.size() / 2));
  EXPECT_NE(error("one.bin").find("fetch it again"), std::string::npos);
  write_all(archive, std::string(2000, 'z'));  // no gzip: it is read as it is
  EXPECT_NE(error("one.bin").find("sum is wrong"), std::string::npos);
  std::filesystem::remove(archive);
  EXPECT_NE(error("one.bin").find("cannot be opened"), std::string::npos);
}

}  // namespace
}  // namespace paceline::data
