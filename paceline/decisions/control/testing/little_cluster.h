// A Controller in a world of its own: replicas that take a random while for each iteration, in virtual time.
// An Observer watches; and the world keeps books of its own about what each commit must say, among them what the
// Controller foresaw.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/rng.h"
#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/control/witnesses.h"
#include "paceline/decisions/policy/policy_spec.h"

namespace paceline::control::testing {

class LittleCluster {
 public:
  // `spec` as parse_policy() reads it. `start`: to be restored; must be fit for it. `listeners` hear of all.
  LittleCluster(const ControllerConfig& config, const std::string& spec, std::uint64_t seed,
                const std::optional<ControllerState>& start = std::nullopt,
                std::vector<RunListener*> listeners = {});

  LittleCluster(const ControllerConfig& config, std::unique_ptr<policy::SyncPolicy> policy,
                std::uint64_t seed, const std::optional<ControllerState>& start = std::nullopt,
                std::vector<RunListener*> listeners = {});

  // The number of samples is unknown, and a replica that comes to their end says so. Call this before the first replica
  // joins.
  void data_end_at(std::int64_t total) { total_ = total; }
  // A replica that needs about `interval` an iteration; `jitter` of it more or less.
  ReplicaId join(const std::string& name, std::int64_t batch, Duration interval, double jitter = 0);
  // `least_batch`: its program cannot compute on fewer samples.
  void leave(ReplicaId replica, std::optional<std::int64_t> least_batch = std::nullopt);
  void stop();
  // The next replica that is due is ready. False when nobody computes.
  bool step();
  void run_until_finished() {
    while (!finished_ && step()) {
    }
  }

  bool finished() const { return finished_; }
  bool computing(ReplicaId replica) const { return replicas_.at(replica).due.has_value(); }
  bool parked(ReplicaId replica) const { return replicas_.at(replica).parked; }
  std::vector<ReplicaId> live() const;
  Controller& controller() { return controller_; }
  const Observer& observer() const { return witnesses_.observer(); }
  Time now() const { return now_; }

  const std::vector<CommitRecord>& log() const { return log_; }
  const std::vector<Release>& releases() const { return releases_; }
  int parks() const { return parks_; }
  // Releases of a replica that was parked.
  int unparks() const { return unparks_; }
  int discards() const { return discards_; }
  // Commits that the Controller foresaw.
  int foreseen() const { return foreseen_commits_; }
  // The first thing that was wrong, and anybody noticed; empty when all is well.
  const std::string& broken() const { return broken_; }

 private:
  struct Replica {
    std::int64_t batch = 0;
    Duration interval{0};
    double jitter = 0;
    std::optional<Time> due;
    Clock clock;
    Version base;
    Lease lease;
    Time released{};
    bool parked = false;
  };

  void give(const Fact& fact);
  void follow(const Order& order);
  void see(const CommitRecord& commit);
  void see_foreseen(const CommitRecord& commit);
  // Whether `fact` leaves the next commit as it was foreseen.
  bool leaves_foreseen(const Fact& fact) const;
  std::int64_t most_leased(const Replica& replica) const;
  void complain(const std::string& what);

  const ControllerConfig config_;
  const bool whole_rounds_;
  Rng rng_;
  Controller controller_;
  Witnesses witnesses_;
  std::map<ReplicaId, Replica> replicas_;
  std::int64_t total_ = 0;
  std::int64_t least_batch_ = 1;
  std::int32_t next_id_ = 0;
  Time now_{};
  std::int64_t committed_ = 0;
  bool finished_ = false;
  std::vector<CommitRecord> log_;
  std::vector<Release> releases_;
  int parks_ = 0;
  int unparks_ = 0;
  int discards_ = 0;
  std::optional<CommitRecord> foreseen_;
  int foreseen_commits_ = 0;
  std::string broken_;
};

// How often each sample of each epoch was committed.
class SampleLog {
 public:
  SampleLog(std::int64_t dataset_size, std::int64_t total)
      : dataset_size_(dataset_size), times_(static_cast<std::size_t>(total)) {}
  void add(const CommitRecord& commit);
  // Every sample, once.
  bool all_once() const;

 private:
  std::int64_t dataset_size_;
  std::vector<int> times_;  // how often each position was trained on, over all epochs
};

}  // namespace paceline::control::testing
