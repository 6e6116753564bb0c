// The small jobs that process tests train: a tiny network on text that the test writes, seconds long.
#pragma once

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "tests/program.h"

namespace paceline::tests {

inline constexpr std::int64_t kSmallJobSamples = 1200;

// A job file in `folder`, with its data; runs go to folder/runs. `more` is laid behind the top-level keys, so
// it may start with some of its own.
inline std::filesystem::path small_job(const std::filesystem::path& folder, const std::string& more) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += fmt::format("line {} of {} says {}\n", i, i % 7, (i * i) % 1013);
  write_text(folder / "text.txt", text);
  const std::filesystem::path job = folder / "job.toml";
  write_text(job,
             fmt::format("name = \"small\"\nruns_dir = \"{}\"\nbatch = 8\n{}\n"
                         "[model]\nname = \"gpt-byte\"\nwidth = 16\nlayers = 1\nheads = 2\ncontext = 16\n"
                         "[data]\nsource = \"text:{}\"\ntrain_samples = {}\ntest_samples = 100\n",
                         (folder / "runs").string(), more, (folder / "text.txt").string(), kSmallJobSamples));
  return job;
}

// The same in folder/name; `keys` stand before its sections, `sections` behind them.
inline std::filesystem::path write_job(const TempFolder& folder, const std::string& name,
                                       const std::string& keys, const std::string& sections) {
  std::filesystem::create_directory(folder / name);
  const std::filesystem::path job = small_job(folder / name, keys);
  write_text(job, read_text(job) + sections);
  return job;
}

}  // namespace paceline::tests
