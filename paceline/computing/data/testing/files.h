// Files of one test, and small archives.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

namespace paceline::data::testing {

// Goes when the test ends.
class TestFolder {
 public:
  TestFolder() {
    std::string name = ::testing::TempDir() + "paceline-data-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_all(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void make_tar_gz(const std::filesystem::path& path,
                        const std::vector<std::pair<std::string, std::string>>& files) {
  std::string all;
  for (const auto& [name, bytes] : files) {
    std::string header(512, '\0');
    header.replace(0, name.size(), name);
    char digits[16];
    std::snprintf(digits, sizeof digits, "%011zo", bytes.size());
    header.replace(124, 11, digits);
    header[156] = '0';
    header.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char byte : header) sum += static_cast<unsigned char>(byte);
    std::snprintf(digits, sizeof digits, "%06o", sum);
    header.replace(148, 7, std::string(digits, 7));
    all += header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
  }
  all += std::string(1024, '\0');
  gzFile out = gzopen(path.c_str(), "wb");
  gzwrite(out, all.data(), static_cast<unsigned>(all.size()));
  gzclose(out);
}

}  // namespace paceline::data::testing
