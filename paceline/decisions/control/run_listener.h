// A listener to a run: the journal, the statistics, a recorder in a test. The host of a Controller calls it
// for each fact that the Controller took and then for each order that it gave, in order, on one thread.
#pragma once

#include <cstdint>

#include "paceline/base/metrics.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/orders.h"

namespace paceline::control {

// The result of an evaluation of one version on the test set.
struct Evaluated {
  Time at;  // when that version was committed, not when the evaluation ended
  Version version;
  std::int64_t samples = 0;  // committed when that version was
  double loss = 0;           // mean, in nats; not a number where there is none
  double accuracy = 0;       // 0..1; the same
  Metrics metrics = {};      // the user's own metrics
};

// Work that no replica does, and how long it took. The process that did it measured it; the Controller does
// not hear of it.
struct SideWork {
  enum class Kind {
    kUpdate,      // a server made a version of its part of the weights
    kEvaluation,  // the evaluator computed the metrics of a version
    kCheckpoint,  // until it counted
  };
  Time at;  // its end, as far as the host of the Controller knows
  Kind kind = Kind::kUpdate;
  Version version;
  Duration took{0};
  // For kUpdate only.
  std::int32_t server = 0;
  std::int64_t bytes = 0;    // size of the weights that it made
  std::int32_t threads = 0;  // threads that made them; 0: not known
  std::int64_t members = 0;  // gradients
};

class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void on_fact(const Fact& fact) = 0;
  // `at`: the time of the fact that gave it.
  virtual void on_order(Time at, const Order& order) = 0;
  virtual void on_evaluated(const Evaluated& evaluated) = 0;
  // A record may come late, but for an evaluation it comes before the result. Most listeners ignore it.
  virtual void on_side_work(const SideWork&) {}
};

}  // namespace paceline::control
