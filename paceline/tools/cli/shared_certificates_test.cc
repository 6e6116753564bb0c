#include "paceline/tools/cli/shared_certificates.h"

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/transport/security/testing/temp_folder.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;

class SharedCertificatesOfHosts : public ::testing::Test {
 protected:
  SharedCertificatesOfHosts() {
    tasks_.starter = "torchrun";
    tasks_.name = "torchrun-none";
    tasks_.count = 2;
  }
  std::unique_ptr<SharedCertificates> host(bool first) {
    return std::make_unique<SharedCertificates>(runs_, tasks_, first);
  }
  // The folders beside the runs.
  int folders() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(runs_))
      if (entry.path().filename().string().starts_with(".")) ++count;
    return count;
  }
  void write_run(const std::string& certs) {
    const fs::path run = runs_ / "small-bsp-1";
    fs::create_directories(run);
    const std::string text = "name = \"small\"\n[network]\ncerts = \"" + certs + "\"\n";
    ASSERT_TRUE(store::atomic_write(run / "job.toml", text).ok());
  }

  security::TempFolder folder_;
  const fs::path runs_ = folder_.path() / "runs";
  launch::Tasks tasks_;
};

TEST_F(SharedCertificatesOfHosts, AreOfThisStartWhoeverComesFirst) {
  for (const bool first_waits : {true, false}) {
    // The first host of an earlier start with this name was killed, and its files are still there.
    fs::create_directories(runs_ / ".tasks-torchrun-none");
    ASSERT_TRUE(store::atomic_write(runs_ / ".tasks-torchrun-none" / "ready", "/old\n").ok());
    ASSERT_TRUE(store::atomic_write(runs_ / ".tasks-torchrun-none" / "answer-0", "/old\n").ok());
    const auto first = host(true), other = host(false);
    std::string made, heard;
    auto asks = std::async(std::launch::async, [&] { heard = other->folder_of_job("small").value(); });
    if (first_waits) {
      // Nothing that is there answers it.
      EXPECT_EQ(asks.wait_for(std::chrono::milliseconds(500)), std::future_status::timeout);
    }
    made = first->folder_of_job("small").value();
    asks.get();
    EXPECT_EQ(heard, made);
    EXPECT_FALSE(fs::is_empty(made));
  }
  EXPECT_EQ(folders(), 0);
}

TEST_F(SharedCertificatesOfHosts, StayForARunThatIsNotOver) {
  auto first = host(true);
  const std::string made = first->folder_of_job("small").value();
  write_run(made);
  first.reset();
  EXPECT_TRUE(fs::exists(made));
  // Another start of the same name leaves them alone, and takes its own away.
  host(true)->folder_of_job("small").value();
  EXPECT_TRUE(fs::exists(made));
  EXPECT_EQ(folders(), 1);
}

TEST_F(SharedCertificatesOfHosts, AreNotLeftWithoutARun) {
  auto first = host(true);
  first->folder_of_job("small").value();
  write_run("/elsewhere/small");
  first.reset();
  EXPECT_EQ(folders(), 0);
}

}  // namespace
}  // namespace paceline::cli
