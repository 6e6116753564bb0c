// ElasticBSP a second time, deliberately dumber, from the definitions and not from the policy: it keeps every
// fact of a superstep, counts from them anew each time, stores every predicted time and tries every barrier.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/decisions/policy/testing/oracle_fact.h"

namespace paceline::policy::testing {

class ElasticOracle {
 public:
  explicit ElasticOracle(const ElasticBspSpec& spec) : spec_(spec) {}

  Answer take(const Fact& fact);
  std::int64_t clock(int id);

 private:
  // An iteration that a replica finished since the barrier.
  struct Finish {
    Time at;
    bool after_plan;  // after the first plan of the superstep
  };
  struct Replica {
    int id = 0;
    std::int64_t clock = 0;
    bool paused = false;  // measured, and waits until all are
    bool waits = false;   // held, its gradient not committed
    std::vector<Finish> finishes{};
    std::vector<Duration> computes{};     // all its life
    std::vector<Time> predictions{};      // for the iterations after the plan that counts
    std::optional<std::int64_t> quota{};  // iterations after the first plan
  };

  Replica& find(int id);
  std::int64_t finished_after_plan(const Replica& replica) const;
  Duration interval(const Replica& replica) const;
  bool all_measured() const;
  bool somebody_is_on_the_way() const;
  void ready(const Fact& fact, Answer& answer);
  void plan(Time now, bool first, const Replica* arrived);
  // Releases the replicas that are paused.
  void go_on(Time now, Answer& answer);
  void barrier(Answer& answer);

  const ElasticBspSpec spec_;
  std::vector<Replica> live_;
  bool planned_ = false;
  bool somebody_was_late_ = false;
  std::size_t facts_ = 0;  // Readies since the last plan
};

}  // namespace paceline::policy::testing
