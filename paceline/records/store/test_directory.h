// A new empty directory for tests that is removed with its object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

namespace paceline::store {

class TestDirectory {
 public:
  TestDirectory() {
    std::string pattern = ::testing::TempDir() + "paceline-store-XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  // The number of names in it.
  int count() const {
    int entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++entries;
    return entries;
  }

 private:
  std::filesystem::path path_;
};

// Writes a file without waiting for the disk as atomic_write does: tests write thousands of damaged files.
// The file is removed first, because ext4 also waits when a file is emptied and written again.
inline void put_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace paceline::store
