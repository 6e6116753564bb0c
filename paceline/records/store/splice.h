// The attempts of a run as one history. For whole_run.cc and run_tail.cc only.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include <absl/status/status.h>

#include "paceline/decisions/control/run_listener.h"

namespace paceline::store {

// Stands between the attempts, told one after another, and the listener: cuts each attempt off at the version
// from which the next begins, and gives each replica one number for the whole run.
class Splice final : public control::RunListener {
 public:
  explicit Splice(control::RunListener& next) : next_(&next) {}
  // Goes on as `other` would, for another listener.
  Splice(const Splice& other, control::RunListener& next) : Splice(other) { next_ = &next; }

  // Begins an attempt. Its versions up to `last` count; without `last`, all do.
  void begin(std::optional<Version> last);
  // Another version is the last one that counts of the attempt that was begun. Requires: it is not told yet.
  void end_at(std::optional<Version> last) { last_ = last; }
  // Lets the attempt's replicas leave. Requires: begun with a last version.
  void end();

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  // Results of evaluations and durations of side work come late, maybe after the cut.
  void on_evaluated(const control::Evaluated& evaluated) override;
  void on_side_work(const control::SideWork& work) override;

  // The first impossible event of the record.
  const absl::Status& status() const { return status_; }

 private:
  // Gives a replica the number that its place had before the attempt; else its own number, if that is free.
  void join(control::ReplicaJoined& joined);
  void renumber(ReplicaId& replica);

  control::RunListener* next_;
  std::optional<Version> last_;
  bool cut_ = false;  // whether the rest of this attempt is left out
  Time latest_{};
  std::map<ReplicaId, ReplicaId> numbers_;      // from the attempt's number to the whole run's
  std::set<ReplicaId> here_;                    // the whole run's numbers, here and below
  std::map<ReplicaId, std::string> names_;      // names of all replicas so far
  std::map<std::string, ReplicaId> returning_;  // replicas that were here when the attempt before ended
  absl::Status status_;
};

}  // namespace paceline::store
