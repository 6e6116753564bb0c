// Helpers for the tests of this folder: files made for one test, and the real data sets if they are there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <zlib.h>

#include "paceline/computing/train/read_file.h"
#include "paceline/formats/config/model_config.h"

namespace paceline::train {

// A directory that goes when the test ends.
class TempDir {
 public:
  TempDir() {
    std::string name = ::testing::TempDir() + "paceline-train-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

  void write(const std::string& name, const Bytes& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  void write_gzip(const std::string& name, const Bytes& bytes) const {
    gzFile out = gzopen(file(name).c_str(), "wb");
    gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(out);
  }

 private:
  std::filesystem::path path_;
};

// A job file's [model] that has only the name.
inline config::ModelConfig model_named(const std::string& name) {
  config::ModelConfig model;
  model.name = name;
  return model;
}

inline Bytes bytes_of(const std::string& text) { return Bytes(text.begin(), text.end()); }

// An error is one line, and says each of these.
inline void expect_error(const absl::Status& status, absl::StatusCode code,
                         const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code) << status;
  const std::string message(status.message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

}  // namespace paceline::train

// Skips the test if the real data set `dir` is not there, a path from the project's root.
#define PACELINE_SKIP_WITHOUT(dir)                                                          \
  if (!std::filesystem::exists(dir)) {                                                      \
    GTEST_SKIP() << dir << " is not there: run from the project's root beside shared/data"; \
  }                                                                                         \
  static_assert(true)
