// Decides about one attempt after another, until the run is over or cannot go on: which hosts each attempt
// goes without, whether it trains or only looks for versions that servers still have, and when another
// attempt is of no use. Pure: it takes the contents of the run folder and the end of each attempt, and gives
// orders.
//
// If a coordinator was killed and weights are kept twice, servers may have a newer version than the newest
// checkpoint. It has as many parts as the attempt that was cut short had hosts. If the run has other hosts
// now, an attempt that does not train looks for that version first, with the old hosts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/actions.h"
#include "paceline/decisions/coordinator/restart.h"
#include "paceline/decisions/supervisor/restarts.h"

namespace paceline::coordinator {

struct AttemptsOptions {
  std::string job_file;                 // for people
  HostRank host{0};                     // host of this process
  std::vector<HostRank> without{};      // hosts that the recorded job leaves out, in order
  std::int64_t copies = 1;              // copies of each shard, in the recorded job
  std::int64_t hosts = 1;               // number of hosts in the recorded job, not counting `without`
  bool shared_folder = true;            // its lock says who leads
  bool again = false;                   // the run has begun before, and nobody stopped it
  std::optional<HostRank> lost_host{};  // the host that led before, if this host has taken over
};

// ---- What comes in ----

// The contents of the run folder before the first attempt.
struct FolderBefore {
  std::optional<CutShortAttempt> cut_short{};
  std::optional<Version> newest{};  // checkpoint
};

// An attempt has ended.
struct AttemptEnded {
  absl::Status status;
  bool can_go_on = false;  // Attempt::can_go_on(), and all its records were written
  bool trained = false;
  Version seen{};                   // the newest version that a process may have seen
  std::int64_t copies = 1;          // copies that the attempt had of each shard
  std::optional<Version> newest{};  // checkpoint
  std::vector<HostRank> lost_hosts{};
  std::map<std::string, std::string> wrong_workers{};
  absl::Status leads{};   // OK while this host leads; else who leads
  absl::Status access{};  // OK while processes can connect again with the present certificates and tokens

  // The versions that a process may have seen and that are newer than the checkpoint that the run goes on
  // from.
  std::int64_t lost_commits() const;
  // Whether these versions are lost for good. If there are copies, servers may still have the versions when
  // they come again.
  bool lost_for_good() const { return lost_commits() == 0 || copies == 1; }
  // How the end of the journal was written. A run whose journal has a hole cannot go on.
  void recorded(const absl::Status& written) {
    status.Update(written);
    can_go_on = can_go_on && written.ok();
  }
};

// ---- What goes out ----

// The job is the recorded one without these hosts, in order, from the next attempt on.
struct LeaveOut {
  std::vector<HostRank> hosts;
};

// AttemptEnded answers it.
struct RunAttempt {
  bool again = false;  // goes on from the newest checkpoint, if there is one
  std::optional<std::vector<HostRank>> only_look_without{};  // see AttemptOptions
  std::map<std::string, std::string> given_up{};             // the same
};

struct EndRun {
  absl::Status status;
};

// The orders, to be carried out in this sequence. Tell is also for later readers.
using AttemptsOrder = std::variant<LeaveOut, RunAttempt, Tell, EndRun>;

class Attempts {
 public:
  explicit Attempts(AttemptsOptions options) : options_(std::move(options)), without_(options_.without) {}

  // The last order of each list is RunAttempt or EndRun.
  std::vector<AttemptsOrder> begin(const FolderBefore& folder);
  std::vector<AttemptsOrder> ended(const AttemptEnded& ended);

 private:
  void leave_out(std::vector<HostRank> hosts);
  void run(bool again);
  void end(absl::Status status) { orders_.emplace_back(EndRun{std::move(status)}); }
  std::vector<HostRank> job_without(const std::vector<HostRank>& hosts) const;
  absl::Status enough_without(const std::vector<HostRank>& hosts) const;

  const AttemptsOptions options_;
  std::vector<HostRank> without_;    // now, in order
  std::size_t trained_without_ = 0;  // hosts, in the newest attempt that trained
  // set if the attempt under way only looks; these hosts stay left out then
  std::optional<std::vector<HostRank>> only_look_;
  std::map<std::string, std::string> given_up_;
  supervisor::Restarts restarts_;
  std::vector<AttemptsOrder> orders_;
};

// If hosts share no disk, another host keeps a copy of the run, and leads it next: the one after the leader,
// of the remaining hosts. nullopt if the leader is alone.
std::optional<HostRank> keeper_of(const std::vector<HostRank>& hosts, HostRank leader);

// The information about an earlier attempt for the one that goes on from `from`; `newest`: the newest of the
// attempts that recorded commits and were cut short.
std::optional<CutShort> cut_short_after(std::optional<CutShort> newest, Version from);

}  // namespace paceline::coordinator
