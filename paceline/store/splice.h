// The attempts of a run as one history. For whole_run.cc and run_tail.cc only.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include <absl/status/status.h>

#include "paceline/control/run_listener.h"

namespace paceline::store {

// Stands between the attempts, told one after another, and the listener: cuts each off where the next begins,
// and gives a replica one number for the whole run.
class Splice final : public control::RunListener {
 public:
  explicit Splice(control::RunListener& next) : next_(next) {}

  // What follows is an attempt. Its versions up to `last` count; without `last`, all do.
  void begin(std::optional<Version> last);
  // Its replicas leave. Requires: begun with a last version.
  void end();

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  // What evaluations gave and what took how long come late, maybe after the cut.
  void on_evaluated(const control::Evaluated& evaluated) override;
  void on_side_work(const control::SideWork& work) override;

  // What in the record cannot have been.
  const absl::Status& status() const { return status_; }

 private:
  // The same replica as before the attempt, if its place had one; else its own number, if nobody had that.
  void join(control::ReplicaJoined& joined);
  void renumber(ReplicaId& replica);

  control::RunListener& next_;
  std::optional<Version> last_;
  bool cut_ = false;  // nothing more is told of this attempt
  Time latest_{};
  std::map<ReplicaId, ReplicaId> numbers_;      // the attempt's → the whole run's
  std::set<ReplicaId> here_;                    // the whole run's numbers, here and below
  std::map<ReplicaId, std::string> names_;      // ever
  std::map<std::string, ReplicaId> returning_;  // who was here when the attempt before ended
  absl::Status status_;
};

}  // namespace paceline::store
