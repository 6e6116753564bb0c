// The start of an attempt: for which processes it waits, from which version it goes on, and when its servers start.
// This object ends with the phase. Pure.
//
// A later attempt may find that its servers still have a newer version than the restart. The servers that came then
// have every shard of it, and write it (Replication).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/events.h"
#include "paceline/decisions/coordinator/first_weights.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/decisions/coordinator/processes.h"
#include "paceline/decisions/coordinator/recovery_vote.h"
#include "paceline/decisions/coordinator/waiting.h"

namespace paceline::coordinator {

class Start {
 public:
  // The references outlive this.
  Start(const AttemptOptions& options, Processes& processes, Outbox& out);

  // ---- The version that the run goes on from

  // Takes the ballot of a server that came.
  void came(ServerId server, const Ballot& ballot, SteadyTime at);
  // The newer version that the servers should write now; nothing if they have none, or while another server is
  // worth waiting for.
  std::optional<RecoveryVote::Found> newer_version(SteadyTime at);
  // Another host has a copy of the restart's checkpoint, or never will.
  void has_copy() { awaits_copy_ = false; }
  bool awaits_copy() const { return awaits_copy_; }

  // ---- The servers

  // Tells the servers to start if all they need is here. Returns whether it told them now. `announce`: they are to
  // say which versions they have made. Errors: the job cannot be.
  absl::StatusOr<bool> start_servers(bool announce);
  // The server cannot read its first weights. Returns the worker to which they belong; null if it is gone. Errors:
  // FailedPrecondition when the server was not told to read weights, or said so before.
  absl::StatusOr<const Worker*> refused_weights(ServerId server);
  // Has servers without weights read another worker's.
  void give_weights() { first_weights_.give(); }

  // ---- Waiting

  // The attempt is lost: another one goes on, without these hosts.
  struct GoBack {
    std::string why;
    std::vector<HostRank> without{};
  };
  // All launchers have heard to which host this one leaves the lead.
  struct LeaveLead {};
  // Devices whose workers a later attempt has waited for long enough.
  struct Absent {
    std::vector<DevicePlace> devices;
    std::string why;
  };
  // A newer version to save; the end of the attempt; the end of the lead; the reason why the run fails; the devices to
  // begin without.
  using Step = std::variant<std::monostate, RecoveryVote::Found, GoBack, LeaveLead, absl::Status, Absent>;
  // The next step, if it is time for one. Another one may be due at the next tick. `listened`: see Hearing; `hears`:
  // whether this process has listened for a while.
  Step time_passed(SteadyTime at, SteadyTime::duration listened, bool hears);

  // ---- The lead

  // The host that led before is back. Leaves the lead to it, unless something of the run may be here alone by now.
  void give_way(const LeaderIsBack& back, SteadyTime at);
  const LeaderIsBack* gives_way_to() const { return gives_way_ ? &gives_way_->to : nullptr; }

  // ---- The devices and replicas

  // The run begins without these, once there is a plan for that. A worker that comes later joins the run.
  void begin_without(const Absent& absent);
  void came(DevicePlace device) { missing_.came(device); }
  bool begins_without() const { return absent_.has_value(); }
  // Requires: begins_without().
  Absent take_absent() { return *std::exchange(absent_, std::nullopt); }
  // The Controller, which waits for as many replicas as were planned, was told of one more.
  void told_of_replica() { ++told_of_; }
  std::int64_t told_of() const { return told_of_; }

 private:
  bool all_awaited_servers_here() const;
  std::optional<std::string> why_look_is_over() const;
  absl::Status check_hosts(std::chrono::duration<double> listened) const;
  std::optional<GoBack> lost_hosts(std::chrono::duration<double> listened) const;
  std::optional<Absent> overdue(SteadyTime::duration listened);
  // Places whose workers may yet come and say which card they have.
  std::set<DevicePlace> awaited_cards() const;
  absl::StatusOr<std::optional<std::vector<std::string>>> cards_for_shards() const;
  // For each of these cards, how many versions its devices may hold at once.
  std::vector<std::int32_t> holders(const std::vector<std::string>& cards) const;
  // Several cards get parts of the model by the memory that they have free.
  void split_by_memory(const std::vector<std::string>& cards);
  ServerStart start_order(bool announce) const;
  void end_vote() {
    vote_.reset();
    vote_found_since_.reset();
  }

  const AttemptOptions& options_;
  Processes& processes_;
  Outbox& out_;
  // Set if there are copies, while servers may have newer versions than the restart.
  std::optional<RecoveryVote> vote_;
  // since when the servers that came have every shard of such a version
  std::optional<SteadyTime> vote_found_since_;
  struct GivesWay {
    LeaderIsBack to;
    SteadyTime since;
  };
  std::optional<GivesWay> gives_way_;
  bool awaits_copy_;  // waits for a copy of the restart's checkpoint
  FirstWeights first_weights_;
  MissingDevices missing_;
  std::vector<DevicePlace>
      overdue_;  // workers that had not come when the wait for them ended; some may have come since
  std::optional<Absent> absent_;
  std::int64_t told_of_ = 0;
};

}  // namespace paceline::coordinator
