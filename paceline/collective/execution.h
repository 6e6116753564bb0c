// Carries out one rank's steps of any schedule: a state machine without a clock, a thread or a wait of its
// own. Its owner calls advance() whenever a peer may have come further.
//
// Deaths. A peer that is gone ends the execution, unless nothing more of it is needed. The owners then agree
// on the survivors and run a new plan over them, under a higher attempt number. An attempt counts when all
// its members have finished it; a member begins the next only once the one before counts, or never will.
// Progress carries its attempt, so that what a peer did in an earlier one is taken for nothing done.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "paceline/collective/schedule.h"

namespace paceline::collective {

// What an execution reaches its peers through; its implementations know what memory that is.
class Fabric {
 public:
  virtual ~Fabric() = default;
  // Steps the peer has finished in this attempt; nothing when it is gone: dead, or in a later attempt. What
  // those steps wrote can be read then.
  virtual std::optional<std::int64_t> finished(int peer) = 0;
  // That range of a rank's memory; the own rank's included. Valid until the next call.
  virtual const float* read(int rank, Source source, Range range) = 0;
  // That range of the own accumulator.
  virtual float* write(Range range) = 0;
  // So many steps of this rank are finished: what they wrote is visible to all who see the number.
  virtual void publish(std::int64_t finished) = 0;
};

struct Standing {
  enum State {
    kDone,
    kBlocked,   // until `peer` has finished `needs` steps
    kPeerGone,  // `peer` is; this execution has ended
    kStopped,   // after as many steps as were asked for
  };
  State state;
  int peer = 0;
  std::int64_t needs = 0;
};

class Execution {
 public:
  static constexpr std::int64_t kAll = INT64_MAX;

  // `weights`: of each rank's input. The fabric outlives this.
  Execution(const Plan& plan, int rank, std::vector<float> weights, Fabric& fabric);

  // Does the steps that are possible now, at most so many.
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
