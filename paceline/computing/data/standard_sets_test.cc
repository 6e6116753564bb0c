#include "paceline/computing/data/standard_sets.h"

#include <gtest/gtest.h>

#include "paceline/computing/data/sha256.h"
#include "paceline/computing/data/testing/files.h"

namespace paceline::data {
namespace {

namespace fs = std::filesystem;
using testing::make_tar_gz;
using testing::read_all;
using testing::TestFolder;
using testing::write_all;

TEST(Sha256, AgreesWithKnownSums) {
  TestFolder folder;
  write_all(folder / "empty", "");
  write_all(folder / "abc", "abc");
  EXPECT_EQ(*sha256_of_file(folder / "empty"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(*sha256_of_file(folder / "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(sha256_of_file(folder / "none").ok());
}

TEST(StandardSetsTable, EachFileHasASum) {
  for (const StandardSet& set : standard_sets()) {
    EXPECT_TRUE(set.folder.ends_with("/")) << set.name;
    for (const PublishedFile& file : set.files) EXPECT_EQ(file.sha256.size(), 64u) << file.name;
  }
}

// A set of two files: one as it is, one an archive.
class StandardSets : public ::testing::Test {
 protected:
  StandardSets() {
    write_all(folder_ / "plain.gz", "plain");
    make_tar_gz(folder_ / "packed.tar.gz", {{"in/a.bin", "A"}, {"in/b.bin", "B"}});
    plain_ = {"plain.gz", *sha256_of_file(folder_ / "plain.gz")};
    packed_ = {"packed.tar.gz", *sha256_of_file(folder_ / "packed.tar.gz"), {"a.bin", "b.bin"}};
  }

  TestFolder folder_;
  PublishedFile plain_, packed_;
  const fs::path into_ = folder_ / "into";
};

TEST_F(StandardSets, FilesComeIntoANewFolder) {
  {
    auto staging = Staging::in(into_);
    ASSERT_TRUE(staging.ok()) << staging.status();
    ASSERT_TRUE(staging->add(plain_, folder_ / "plain.gz").ok());
    ASSERT_TRUE(staging->add(packed_, folder_ / "packed.tar.gz").ok());
    EXPECT_FALSE(fs::exists(into_ / "a.bin"));  // not before all is there
    ASSERT_TRUE(staging->finish().ok());
  }
  EXPECT_EQ(read_all(into_ / "plain.gz"), "plain");
  EXPECT_EQ(read_all(into_ / "a.bin") + read_all(into_ / "b.bin"), "AB");
  EXPECT_EQ(std::distance(fs::directory_iterator(into_), {}), 3);
}

TEST_F(StandardSets, AnotherFileIsRefusedAndNothingIsLeft) {
  write_all(folder_ / "plain.gz", "plaid");
  {
    auto staging = Staging::in(into_);
    ASSERT_TRUE(staging->add(packed_, folder_ / "packed.tar.gz").ok());
    const absl::Status status = staging->add(plain_, folder_ / "plain.gz");
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(status.message().find(plain_.sha256), std::string::npos) << status;
  }
  EXPECT_FALSE(fs::exists(into_));
}

TEST_F(StandardSets, AFolderThatWasThereStaysAsItWas) {
  fs::create_directory(into_);
  write_all(into_ / "a.bin", "old");
  { auto staging = Staging::in(into_); }
  EXPECT_EQ(read_all(into_ / "a.bin"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(into_), {}), 1);
}

// Whether it lies there, is a link to it, or is none at all.
TEST_F(StandardSets, NoOtherFileIsReplaced) {
  fs::create_directory(into_);
  write_all(into_ / "b.bin", "mine");
  const auto put = [&] {
    auto staging = Staging::in(into_);
    EXPECT_TRUE(staging->add(packed_, folder_ / "packed.tar.gz").ok());
    return staging->finish();
  };
  const absl::Status refused = put();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists) << refused;
  EXPECT_NE(refused.message().find("b.bin"), std::string::npos) << refused;
  EXPECT_EQ(read_all(into_ / "b.bin"), "mine");
  EXPECT_FALSE(fs::exists(into_ / "a.bin")) << "half of the set";
  fs::remove(into_ / "b.bin");
  fs::create_symlink(folder_ / "nothing", into_ / "b.bin");
  EXPECT_EQ(put().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::is_symlink(into_ / "b.bin"));
  fs::remove(into_ / "b.bin");
  EXPECT_TRUE(put().ok());
  EXPECT_TRUE(put().ok()) << "the same set again";
  EXPECT_EQ(read_all(into_ / "a.bin") + read_all(into_ / "b.bin"), "AB");
}

TEST_F(StandardSets, APlaceIsLookedAtBeforeAFileIsFetched) {
  fs::create_directory(into_);
  auto staging = Staging::in(into_);
  EXPECT_TRUE(staging->check_place(plain_).ok());
  write_all(into_ / "plain.gz", "plain");
  EXPECT_TRUE(staging->check_place(plain_).ok());
  write_all(into_ / "plain.gz", "mine!");
  EXPECT_EQ(staging->check_place(plain_).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(StandardSets, ReplacesTheRestOfAKilledProcess) {
  fs::create_directories(into_ / ".paceline-data.partial");
  write_all(into_ / ".paceline-data.partial/a.bin", "half");
  auto staging = Staging::in(into_);
  ASSERT_TRUE(staging.ok());
  ASSERT_TRUE(staging->add(packed_, folder_ / "packed.tar.gz").ok());
  ASSERT_TRUE(staging->finish().ok());
  EXPECT_EQ(read_all(into_ / "a.bin"), "A");
}

}  // namespace
}  // namespace paceline::data
