// Something that wants to know what happens in a run: the journal, the statistics, a recorder in a test. The
// host of a Controller calls it for each fact the Controller took and then for each order it gave, in order,
// on one thread.
#pragma once

#include <cstdint>

#include "paceline/base/metrics.h"
#include "paceline/control/facts.h"
#include "paceline/control/orders.h"

namespace paceline::control {

// What an evaluation of one version on the test set gave.
struct Evaluated {
  Time at;  // when that version was committed, not when the evaluation ended
  Version version;
  std::int64_t samples = 0;  // committed when that version was
  double loss = 0;           // mean, in nats; not a number where there is none
  double accuracy = 0;       // 0..1; likewise
  Metrics metrics = {};      // of the user's own
};

class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void on_fact(const Fact& fact) = 0;
  // `at`: the time of the fact that gave it.
  virtual void on_order(Time at, const Order& order) = 0;
  virtual void on_evaluated(const Evaluated& evaluated) = 0;
};

}  // namespace paceline::control
