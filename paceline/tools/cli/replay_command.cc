#include "paceline/tools/cli/replay_command.h"

#include <map>
#include <optional>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/control/replay.h"
#include "paceline/formats/config/old_keys.h"
#include "paceline/formats/config/planning.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/controller_state_json.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::cli {

namespace {

using About = std::map<std::string, std::string>;
// The states that a later attempt may have gone on from, ordered by version.
using States = std::map<Version, control::ControllerState>;

// Passes a recording on to the replay, and keeps the states that were saved on the way.
class Saving final : public control::RunListener {
 public:
  Saving(control::Replay& replay, States& states) : replay_(replay), states_(states) {}
  void on_fact(const control::Fact& fact) override { replay_.on_fact(fact); }
  void on_order(Time at, const control::Order& order) override {
    const auto* commit = std::get_if<control::CommitRecord>(&order);
    if (commit != nullptr && commit->checkpoint) states_[commit->version] = *commit->checkpoint;
    replay_.on_order(at, order);
  }
  void on_evaluated(const control::Evaluated&) override {}

 private:
  control::Replay& replay_;
  States& states_;
};

absl::Status not_recorded(const std::string& folder) {
  return absl::FailedPreconditionError(
      fmt::format("{}: the run has not started to train, or an older Paceline recorded it", folder));
}

absl::StatusOr<control::ControllerConfig> config_of(const About& about, const std::string& folder,
                                                    const config::JobConfig& job) {
  const auto size = runs::count_in(about, runs::kDatasetSizeKey);
  if (!size) return not_recorded(folder);
  return config::controller_config(job, *size);
}

// Adds the state that the attempt itself recorded as its start. A checkpoint need not come from a commit, and
// an attempt may only have saved the servers' versions.
absl::Status add_saved(const About& about, const store::Attempt& attempt, States& states) {
  const auto saved = about.find(runs::saved_state_key(attempt.number));
  if (saved == about.end()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(control::ControllerState state, store::controller_state_from_text(saved->second));
  states[state.version] = std::move(state);
  return absl::OkStatus();
}

absl::Status replay_attempt(const std::string& folder, const About& about, const store::Attempt& attempt,
                            store::JournalReader& journal, States& states) {
  PACELINE_ASSIGN_OR_RETURN(
      const config::JobConfig job,
      config::parse_job(config::with_current_keys(about.at(runs::job_key(attempt.number))),
                        folder + ", its recorded job"));
  PACELINE_ASSIGN_OR_RETURN(const control::ControllerConfig config, config_of(about, folder, job));
  std::optional<control::ControllerState> start;
  if (attempt.from > Version(0)) {
    const auto found = states.find(attempt.from);
    if (found == states.end()) {
      return absl::DataLossError(
          fmt::format("{}: attempt {} goes on from version {}, whose state no earlier attempt recorded",
                      folder, attempt.number, attempt.from));
    }
    start = found->second;
  }
  // A recording from before plans were orders has nothing to hold them to.
  const bool live = runs::world_of(about) == report::World::kLive;
  const config::RunTime time = live ? config::RunTime::kWall : config::RunTime::kVirtual;
  std::unique_ptr<control::Replanner> replanner;
  if (auto planning = config::replanner_options(job, time)) {
    PACELINE_ASSIGN_OR_RETURN(const bool tells, journal.tells_of_planning(attempt.number));
    if (tells) {
      PACELINE_ASSIGN_OR_RETURN(replanner, control::Replanner::create(*std::move(planning)));
    }
  }
  PACELINE_ASSIGN_OR_RETURN(const auto replay, control::Replay::make(config, policy::make_policy(job.policy),
                                                                     start, std::move(replanner)));
  Saving saving(*replay, states);
  PACELINE_RETURN_IF_ERROR(journal.decisions(saving, attempt.number));
  if (replay->difference()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: attempt {}: {}", folder, attempt.number, *replay->difference()));
  }
  launch::print(stdout, fmt::format("attempt {}: {} facts gave the same {} orders\n", attempt.number,
                                    replay->facts(), replay->orders()));
  return absl::OkStatus();
}

}  // namespace

absl::Status replay_command(const std::string& folder) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunPaths paths, store::find_run(folder));
  PACELINE_ASSIGN_OR_RETURN(store::JournalReader journal, store::JournalReader::open(paths.journal()));
  PACELINE_ASSIGN_OR_RETURN(const About about, journal.run());
  PACELINE_ASSIGN_OR_RETURN(const auto attempts, journal.attempts());
  States states;
  bool any = false;
  for (const store::Attempt& attempt : attempts) {
    PACELINE_RETURN_IF_ERROR(add_saved(about, attempt, states));
    if (!about.contains(runs::job_key(attempt.number))) continue;  // the attempt ended before training
    any = true;
    PACELINE_RETURN_IF_ERROR(replay_attempt(folder, about, attempt, journal, states));
  }
  return any ? absl::OkStatus() : not_recorded(folder);
}

}  // namespace paceline::cli
