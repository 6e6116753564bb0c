// A run whose host loses its power: of its folder there is what was synced, and of what was not any part. It
// goes on from there. The disk is made up by tests/synced_files.cc, which all processes of the run carry.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/records/store/checkpoint.h"
#include "tests/disk_identity.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

std::string identity(const fs::path& path) { return disk_identity(AT_FDCWD, path.c_str()); }

// Makes the folder as a disk may have it after a loss of power. A file that was never synced is empty, or has
// a part of its first bytes.
void after_power_loss(const fs::path& kept, const std::string& folder, const fs::path& now,
                      const fs::path& to, Rng& rng) {
  fs::create_directory(to);
  std::istringstream names(read_text(kept / folder));
  std::string whose, kind, name;
  while (names >> whose >> kind && std::getline(names.ignore(1), name)) {
    if (kind == "d") {
      after_power_loss(kept, whose, now / name, to / name, rng);
    } else if (fs::exists(kept / whose)) {
      fs::copy_file(kept / whose, to / name);
    } else {
      const bool there = fs::exists(now / name) && identity(now / name) == whose;
      const std::string all = there ? read_text(now / name) : "";
      write_text(to / name, all.substr(0, rng.below(all.size() + 1)));
    }
    if (kind == "f") fs::permissions(to / name, fs::perms::owner_read | fs::perms::owner_write);
  }
}

std::vector<Version> checkpoints_of(const fs::path& run) {
  std::vector<Version> versions;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('v') && name.find('.') == std::string::npos)
      versions.emplace_back(std::stoll(name.substr(1)));
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

TEST(PowerLoss, LeavesARunThatGoesOn) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const TempFolder folder;
    fs::create_directory(folder / "kept");
    fs::create_directory(folder / "runs");
    const fs::path job = small_job(folder.path(), "epochs = 2000\n[checkpoint]\nevery_epochs = 0.02\n");
    setenv("LD_PRELOAD", PACELINE_SYNCED_FILES, 1);
    setenv("PACELINE_SYNC_ROOT", (folder / "runs").c_str(), 1);
    setenv("PACELINE_SYNC_KEPT", (folder / "kept").c_str(), 1);
    Program train({"train", job.string()});
    for (const char* name : {"LD_PRELOAD", "PACELINE_SYNC_ROOT", "PACELINE_SYNC_KEPT"}) unsetenv(name);
    ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
    const fs::path run = only_run(folder / "runs");
    ASSERT_TRUE(train.until([&] { return checkpoints_of(run).size() >= 2; }));
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(500'000)));
    train.signal(SIGKILL);
    train.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // its children follow it

    const std::vector<Version> had = checkpoints_of(run);
    ASSERT_GE(had.size(), 2u);
    fs::create_directory(folder / "disk");
    after_power_loss(folder / "kept", identity(folder / "runs"), folder / "runs", folder / "disk" / "runs",
                     rng);
    const fs::path left = only_run(folder / "disk" / "runs");
    const auto newest = store::newest_whole_checkpoint(left);
    ASSERT_TRUE(newest.ok()) << newest.status();
    // The newest may have got its name a moment before.
    EXPECT_GE(newest->checkpoint.state.controller.version, had[had.size() - 2]);

    Program again({"train", "--resume", left.string()});
    expect_goes_on_until_stopped(again, folder / "disk" / "runs");
    const Ended replayed = tests::run({"replay", left.string()});
    EXPECT_EQ(replayed.status, 0) << replayed.errors;
  }
}

}  // namespace
}  // namespace paceline::tests
