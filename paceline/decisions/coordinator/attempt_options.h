// The knowledge with which an attempt at a job begins.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/job_settings.h"
#include "paceline/decisions/coordinator/restart.h"
#include "paceline/decisions/coordinator/state_text.h"

namespace paceline::coordinator {

struct AttemptOptions {
  JobSettings job;
  std::string job_toml;
  std::string run{};  // the name of the run's folder
  std::optional<Restart> restart{};
  // The job has been begun before: processes that are lost at the start are waited for too.
  bool again = false;
  // The job's launcher has just been started. All hosts may be starting, one after the other.
  bool hosts_start = false;
  // No attempt of this process came before: the host that led before has all that the run has.
  bool first = false;
  HostRank host{};                      // host of this process and the evaluator
  std::string attempt{};                // name of this attempt
  std::optional<CutShort> cut_short{};  // set if an earlier attempt recorded more than the restart has
  // Workers that earlier attempts gave up, and why. They are not let in.
  std::map<std::string, std::string> given_up{};
  // The attempt does not train: the run goes back as soon as the servers' versions are written, or turn out
  // to be lost. It does not wait for these hosts.
  std::optional<std::vector<HostRank>> only_look_without{};
  // The only host that sees the run folder; nothing: all do.
  std::optional<HostRank> folder_on{};
  // Servers keep everything in memory until RestartKept, instead of dropping it for the checkpoint of the
  // restart.
  bool awaits_copy = false;
  // A file in the run folder that the servers of other hosts look for; empty: they look for none.
  std::string mark_file{};
  std::string mark_text{};
  StateText state_text{};  // needed if there are several copies of each shard
  // Makes a random key for one direction of a link.
  std::function<std::string()> new_key{};

  // The version of the restart; 0 if there is none.
  Version begins_with() const { return restart ? restart->state.version : Version(0); }
};

}  // namespace paceline::coordinator
