// `paceline data` from a user's view: any fault is one line, and nothing half-written is left. The network is
// not used: instead of curl the command finds a program of this test.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

class DataCommand : public testing::Test {
 protected:
  // A curl that does `what`, in which $file is what it is to write.
  void put_curl(const std::string& what) {
    fs::create_directories(bin_);
    write_text(bin_ / "curl",
               "#!/bin/sh\nwhile [ \"$1\" != --output ]; do shift; done\nfile=$2\n" + what + "\n");
    fs::permissions(bin_ / "curl", fs::perms::owner_all);
  }
  Ended data(const std::string& words) const {
    return Program(InShell{}, fmt::format("PATH='{}' $PACELINE data {}", bin_.string(), words)).wait();
  }
  void expect_refused(const Ended& ended, const std::vector<std::string>& parts) const {
    EXPECT_EQ(ended.status, 2);
    std::string errors = ended.errors;
    if (errors.starts_with("fetching ")) errors = errors.substr(errors.find('\n') + 1);
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << ended.errors;
    for (const std::string& part : parts) EXPECT_NE(errors.find(part), std::string::npos) << ended.errors;
    EXPECT_FALSE(fs::exists(into_)) << "something is left";
  }

  const TempFolder folder_;
  const fs::path bin_ = folder_ / "bin";
  const fs::path into_ = folder_ / "into";
  const std::string to_ = into_.string();
};

TEST_F(DataCommand, FilesAtHandAreCheckedFirst) {
  const std::string archive = (folder_ / "cifar.tar.gz").string();
  expect_refused(data("cifar10 " + to_ + " --from " + archive),
                 {archive, "not a file", "cifar-10-binary.tar.gz"});
  write_text(archive, "no archive");
  expect_refused(
      data("cifar10 " + to_ + " --from " + archive),
      {archive, "its SHA-256 is", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"});
  expect_refused(data("mnist " + to_ + " --from " + archive),
                 {"mnist has 4 files", "t10k-labels-idx1-ubyte.gz"});
  expect_refused(data("mnist " + to_ + " --from " + folder_.path().string()),
                 {"train-images-idx3-ubyte.gz is not there", "t10k-labels-idx1-ubyte.gz"});
  expect_refused(data("mnist " + to_ + " --from /no/such/folder"),
                 {"--from /no/such/folder: there is no such folder", "t10k-labels-idx1-ubyte.gz"});
}

TEST_F(DataCommand, AFileOfThatNameIsKept) {
  fs::create_directory(into_);
  const fs::path mine = into_ / "train-labels-idx1-ubyte.gz";
  write_text(mine, "mine");
  for (const char* set : {"digits", "mnist"}) {
    const Ended ended = data(std::string(set) + " " + to_);
    EXPECT_EQ(ended.status, 2);
    EXPECT_NE(ended.errors.find(mine.string() + ": another file has this name already"), std::string::npos)
        << ended.errors;
    EXPECT_EQ(read_text(mine), "mine");
    EXPECT_EQ(std::distance(fs::directory_iterator(into_), {}), 1);
  }
  fs::remove(mine);
  EXPECT_EQ(data("digits " + to_).status, 0);
  EXPECT_EQ(data("digits " + to_).status, 0);
}

TEST_F(DataCommand, NamesTheSetsThatThereAre) {
  expect_refused(data("imagenet " + to_), {"digits, mnist, cifar10, cifar100"});
}

TEST_F(DataCommand, WithoutANetworkItSaysWhatToFetch) {
  expect_refused(data("cifar100 " + to_),
                 {"curl is not installed", "https://", "--from cifar-100-binary.tar.gz"});
  put_curl("echo 'curl: (6) Could not resolve host: nowhere' >&2; exit 6");
  expect_refused(data("cifar100 " + to_), {"Could not resolve host", "--from cifar-100-binary.tar.gz"});
  expect_refused(data("mnist " + to_),
                 {"fetch these 4 files from https://storage.googleapis.com/cvdf-datasets/mnist/ into",
                  "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, "
                  "t10k-labels-idx1-ubyte.gz; then add --from FOLDER"});
}

TEST_F(DataCommand, WhatWasFetchedIsCheckedToo) {
  put_curl("echo a page that says no > \"$file\"");
  expect_refused(data("cifar10 " + to_ + " --from https://nowhere.example/cifar.tar.gz"), {"its SHA-256 is"});
  expect_refused(data("mnist " + to_), {"train-images-idx3-ubyte.gz", "its SHA-256 is"});
}

}  // namespace
}  // namespace paceline::tests
