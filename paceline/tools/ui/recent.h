// The recent events of a run, which no sum over the whole run shows: speeds, the rate, the time of updates,
// and the curve of versions. A fold like report::RunStats; pure; one thread; memory is bounded by the number
// of replicas.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/stats/thinned.h"

namespace paceline::ui {

// The speed of a replica, in samples a second. Nothing if it is not known yet.
struct Speed {
  std::optional<double> now;   // over its latest iterations
  std::optional<double> past;  // over all iterations before these
};

class Recent final : public control::RunListener {
 public:
  static constexpr std::size_t kLatestIterations = 16;
  static constexpr std::size_t kLatestUpdates = 64;
  static constexpr Duration kRateWindow = std::chrono::seconds(10);

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated&) override {}
  void on_side_work(const control::SideWork& work) override;

  Speed speed(ReplicaId replica) const;
  // The median of the present replicas' speeds.
  std::optional<double> median_speed() const;
  // Committed samples a second, over the latest seconds until `now`.
  std::optional<double> samples_per_s(Time now) const;
  // The mean time of the latest commits on the server that is slowest now; nothing if nobody measured it.
  std::optional<double> update_s() const;
  // A server's updates: their number, and their seconds, of all and of the latest.
  struct ServerUpdates {
    std::int64_t count = 0;
    double seconds = 0;
    double latest_s = 0;  // the mean
    double gb_per_s = 0;  // the weights made in the latest updates
  };
  std::map<std::int32_t, ServerUpdates> updates() const;
  std::optional<double> learning_rate() const { return learning_rate_; }
  Time latest() const { return latest_; }
  // The time of the newest commit; nothing before the first.
  std::optional<Time> last_commit() const {
    return committed_.empty() ? std::nullopt : std::optional(committed_.back().at);
  }
  // The newest version at that time.
  std::int64_t version_at(Time at) const;
  // Replicas that left, by the reason without its numbers; at most kMostReasons of them, the rest count as
  // "other".
  static constexpr std::size_t kMostReasons = 16;
  const std::map<std::string, std::int64_t>& left_by_reason() const { return left_; }

 private:
  struct Iteration {
    std::int64_t samples = 0;
    Duration compute{0};
  };
  struct Replica {
    bool here = false;
    std::int64_t samples = 0;  // samples of the iteration under way
    std::deque<Iteration> latest;
    Iteration before;  // the sum of all before
  };
  struct Update {
    Duration took{0};
    std::int64_t bytes = 0;
  };
  struct Server {
    std::int64_t count = 0;
    Duration time{0};
    std::deque<Update> latest;
  };
  struct Committed {
    Time at;
    std::int64_t samples = 0;
  };
  struct VersionPoint {
    Time at;
    std::int64_t version = 0;
  };

  Replica& replica(ReplicaId id);
  void ready(ReplicaId id, Duration compute);
  void commit(Time at, const control::CommitRecord& record);
  void left(const std::string& why);

  std::vector<Replica> replicas_;  // indexed by replica
  std::deque<Committed> committed_;
  std::map<std::int32_t, Server> servers_;
  std::optional<double> learning_rate_;
  report::Thinned<VersionPoint> versions_{1000};
  std::map<std::string, std::int64_t> left_;
  Time latest_;
};

}  // namespace paceline::ui
