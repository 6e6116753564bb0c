#include "paceline/decisions/control/witnesses.h"

#include <utility>

namespace paceline::control {

Witnesses::Witnesses(Observer observer, std::vector<RunListener*> listeners)
    : observer_(std::move(observer)), listeners_(std::move(listeners)) {}

std::optional<std::string> Witnesses::record(const Fact& fact, const std::vector<Order>& orders) {
  std::optional<std::string> complaint = observer_.see(fact);
  for (RunListener* listener : listeners_) listener->on_fact(fact);
  for (const Order& order : orders) {
    if (!complaint) complaint = observer_.see(order);
    for (RunListener* listener : listeners_) listener->on_order(fact.at, order);
  }
  return complaint;
}

void Witnesses::evaluated(const Evaluated& evaluated) {
  for (RunListener* listener : listeners_) listener->on_evaluated(evaluated);
}

void Witnesses::side_work(const SideWork& work) {
  for (RunListener* listener : listeners_) listener->on_side_work(work);
}

}  // namespace paceline::control
