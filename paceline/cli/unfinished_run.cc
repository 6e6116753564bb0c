#include "paceline/cli/unfinished_run.h"

#include <chrono>
#include <system_error>
#include <thread>

#include "paceline/cli/job_file.h"
#include "paceline/cli/run_info.h"
#include "paceline/store/checkpoint.h"
#include "paceline/store/journal_reader.h"
#include "paceline/store/lock_file.h"
#include "paceline/store/run_folder.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

// Children of a process that was killed die a little later than it.
constexpr std::chrono::seconds kDying{3};
constexpr std::chrono::milliseconds kPause{50};

bool is_free(const store::RunPaths& paths) {
  const auto deadline = std::chrono::steady_clock::now() + kDying;
  while (true) {
    const auto held = store::lock_file(paths.lock());
    if (!held.ok() || held->has_value()) return held.ok();
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
}

bool is_unfinished(const store::RunPaths& paths, const std::string& asked) {
  std::error_code error;
  if (!fs::exists(paths.mark(), error)) return false;
  const auto before = read_job_file(paths.asked());
  return before.ok() && *before == asked && is_free(paths) && store::latest_checkpoint(paths.root).ok();
}

}  // namespace

std::optional<std::string> unfinished_run(const fs::path& runs_dir, const std::string& asked) {
  std::optional<std::string> newest;
  std::error_code error;
  for (auto one = fs::directory_iterator(runs_dir, error); !error && one != fs::directory_iterator();
       one.increment(error)) {
    // Names of one job's runs sort by when they were made.
    const std::string folder = fs::absolute(one->path()).string();
    if ((!newest || *newest < folder) && is_unfinished({folder}, asked)) newest = folder;
  }
  return newest;
}

bool is_over(const std::string& run, const config::JobConfig& job) {
  const auto checkpoint = store::latest_checkpoint(run);
  auto journal = store::JournalReader::open(store::RunPaths{run}.journal());
  if (!checkpoint.ok() || !journal.ok()) return false;
  const auto about = journal->run();
  const auto dataset = about.ok() ? count_in(*about, kDatasetSizeKey) : std::nullopt;
  if (!dataset) return false;
  const control::ControllerState& state = checkpoint->state.controller;
  const std::int64_t all = config::controller_config(job, *dataset).total_samples;
  if (state.ledger.committed() != all) return false;
  bool evaluated = false;
  const absl::Status read = journal->evaluations(
      [&](const control::Evaluated& one) { evaluated = evaluated || one.version == state.version; });
  return read.ok() && evaluated;
}

}  // namespace paceline::cli
