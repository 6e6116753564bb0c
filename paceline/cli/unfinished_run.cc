#include "paceline/cli/unfinished_run.h"

#include <chrono>
#include <functional>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/job_file.h"
#include "paceline/cli/leader.h"
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
  return before.ok() && *before == asked && store::latest_checkpoint(paths.root).ok();
}

std::optional<std::string> newest_unfinished(const fs::path& runs_dir, const std::string& asked,
                                             const std::function<bool(const store::RunPaths&)>& fits) {
  std::optional<std::string> newest;
  std::error_code error;
  for (auto one = fs::directory_iterator(runs_dir, error); !error && one != fs::directory_iterator();
       one.increment(error)) {
    // Names of one job's runs sort by when they were made.
    const std::string folder = fs::absolute(one->path()).string();
    if ((!newest || *newest < folder) && is_unfinished({folder}, asked) && fits({folder})) newest = folder;
  }
  return newest;
}

}  // namespace

std::optional<std::string> unfinished_run(const fs::path& runs_dir, const std::string& asked) {
  return newest_unfinished(runs_dir, asked, is_free);
}

absl::Status check_led_from_here(const fs::path& runs_dir, const std::string& asked, int host) {
  const auto led_elsewhere = [&](const store::RunPaths& paths) {
    const auto leader = read_leader(paths);
    return leader.ok() && leader->host != host && !is_free(paths);
  };
  const auto run = newest_unfinished(runs_dir, asked, led_elsewhere);
  if (!run) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const Leader leader, read_leader({*run}));
  return absl::UnavailableError(
      fmt::format("host {} was given up, and host {} leads {} now, without it; --new begins another run",
                  host, leader.host, *run));
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
