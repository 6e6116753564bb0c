// The versions to measure on the test set, because it is their turn or because a person asked for it. Each
// takes these steps: requested → every server keeps it → the evaluator measures it → every server drops it.
// Pure.
//
// Invariant: at most kMostWaiting versions are kept, and the last of the run beside them; a version
// that was kept is dropped, unless the run ends first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/base/places.h"
#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/process_orders.h"

namespace paceline::coordinator {

class Evaluations {
 public:
  // Further versions are left out, so that servers need not hold more buffers.
  static constexpr std::size_t kMostWaiting = 4;

  // `evaluate`: has the evaluator measure a version. `in_host`: see Keep.
  Evaluations(std::size_t servers, std::function<void(const ServerOrder&)> tell_servers,
              std::function<void(Version)> evaluate, std::function<bool()> in_host);

  // A commit, which is measured if it is to be kept for that. `at`: now. `last`: nothing is committed after
  // this one, so it is never left out.
  void committed(const control::CommitRecord& record, Time at, bool last);
  // The newest version, if it can be measured out of turn. Errors: FailedPrecondition, with the reason.
  absl::StatusOr<Version> next_out_of_turn() const;
  // Requires: next_out_of_turn() has a version.
  void request_out_of_turn();
  // The server keeps the version.
  void kept(ServerId server, Version version);
  // The evaluator can read the weights; if `in_host`, only those in the host's memory, and versions that are not kept
  // there are dropped. A short run may be over before that.
  void evaluator_is_ready(bool in_host);
  // Another evaluator may come, and measures the remaining versions.
  void evaluator_is_gone() { evaluator_ready_ = false; }
  struct Measured {
    control::Evaluated result;
    bool out_of_turn;
  };
  // The result; nullopt if it was not asked for.
  std::optional<Measured> evaluated(const Evaluated& message);
  // There is no evaluator, and will be none.
  void give_up();
  // The run has failed: no more waiting, and no more messages.
  void forget() { waiting_.clear(); }

  bool empty() const { return waiting_.empty(); }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    Time at;  // time of the commit
    std::int64_t samples = 0;
    bool out_of_turn = false;
    bool in_host = false;
    std::set<ServerId> kept_by{};
  };

  void request(Version version, Waiting waiting);
  void drop(Version version);

  const std::size_t servers_;
  const std::function<void(const ServerOrder&)> tell_servers_;
  const std::function<void(Version)> evaluate_;
  const std::function<bool()> in_host_;
  std::map<Version, Waiting> waiting_;
  std::optional<std::pair<Version, Waiting>> newest_;  // the newest of all commits
  std::optional<Version> measured_;                    // the newest measured version
  bool evaluator_ready_ = false;
  bool given_up_ = false;
};

}  // namespace paceline::coordinator
