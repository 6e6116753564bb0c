// Run folders for tests of the pages.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "paceline/processes/runs/run_info.h"
#include "paceline/records/stats/example_run.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::ui {

namespace fs = std::filesystem;

inline void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

inline void make_run(const fs::path& folder, const std::string& policy = "bsp") {
  put(folder / "job.toml", "name = \"job\"\n[sync]\npolicy = \"" + policy + "\"\n[[device]]\ncount = 4\n");
}

// The journal of a whole small run.
inline void record_run(const fs::path& folder) {
  auto journal = store::Journal::open(folder / "journal.sqlite", Version(0));
  ASSERT_TRUE(journal.ok());
  ASSERT_TRUE((*journal)->set(runs::kTotalSamplesKey, "3200").ok());
  report::run_example(report::uneven_four(), "bsp", **journal);
}

class RunFoldersTest : public ::testing::Test {
 protected:
  store::TestDirectory directory_;
  const fs::path root_ = directory_.path();
};

}  // namespace paceline::ui
