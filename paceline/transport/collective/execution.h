// Carries out one rank's steps of any schedule: a state machine without a clock, a thread or a wait of its
// own. Its owner calls advance() whenever a peer may have come further.
//
// Deaths. A peer that is gone ends the execution, unless this rank needs nothing more from it. The owners
// then agree on the survivors and run a new plan over them, under a higher attempt number. An attempt counts
// when all its members have finished it; a member begins the next only once the one before counts, or never
// will. Progress carries its attempt, so the steps that a peer did in an earlier attempt do not count.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "paceline/transport/collective/schedule.h"

namespace paceline::collective {

// The way of an execution to its peers; an implementation knows the kind of memory.
class Fabric {
 public:
  virtual ~Fabric() = default;
  // Number of steps that the peer has finished in this attempt; nothing if it is gone: dead, or in a later
  // attempt. The results of these steps can be read then.
  virtual std::optional<std::int64_t> finished(int peer) = 0;
  // A range of a rank's memory; `rank` may be this one. Valid until the next call.
  virtual const float* read(int rank, Source source, Range range) = 0;
  // A range of this rank's accumulator.
  virtual float* write(Range range) = 0;
  // Says that this rank has finished that many steps: their results are visible to all who see the number.
  virtual void publish(std::int64_t finished) = 0;
};

struct Standing {
  enum State {
    kDone,
    kBlocked,   // waits until `peer` has finished `needs` steps
    kPeerGone,  // `peer` is gone; this execution has ended
    kStopped,   // the number of steps that was asked for is done
  };
  State state;
  int peer = 0;
  std::int64_t needs = 0;
};

class Execution {
 public:
  static constexpr std::int64_t kAll = INT64_MAX;

  // `weights`: the weight of each rank's input. The fabric outlives this.
  Execution(const Plan& plan, int rank, std::vector<float> weights, Fabric& fabric);

  // Does the steps that are possible now, at most `most`.
  Standing advance(std::int64_t most = kAll);

 private:
  void carry_out(const Step& step);

  const std::vector<Step> steps_;
  const int rank_;
  const std::vector<float> weights_;
  Fabric& fabric_;
  std::int64_t finished_ = 0;
  std::optional<int> gone_;
};

}  // namespace paceline::collective
