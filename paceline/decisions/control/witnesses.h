// Everything that watches a run without carrying out its orders: the Observer, which may complain, and the
// listeners, which only take note. The host of a Controller shows them each fact that the Controller took,
// with the orders that it gave; one thread.
//
// Invariant: every listener gets everything in order, including a broken promise, so that the record shows
// what broke it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/observer.h"
#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/control/run_listener.h"

namespace paceline::control {

class Witnesses {
 public:
  // The listeners outlive this and are told in their order here.
  Witnesses(Observer observer, std::vector<RunListener*> listeners);

  // The first broken promise, in words; nothing when all is well.
  std::optional<std::string> record(const Fact& fact, const std::vector<Order>& orders);
  void evaluated(const Evaluated& evaluated);
  void side_work(const SideWork& work);

  const Observer& observer() const { return observer_; }

 private:
  Observer observer_;
  std::vector<RunListener*> listeners_;
};

}  // namespace paceline::control
