// For tests: messages and orders by their kinds.
#pragma once

#include <variant>

#include "paceline/decisions/coordinator/messages.h"

namespace paceline::coordinator {

// The message as one of that kind, which it becomes if it is of another.
template <class What, class... Whats>
What& as(std::variant<Whats...>& message) {
  if (!std::holds_alternative<What>(message)) message = What();
  return std::get<What>(message);
}
template <class What>
What& as(ServerMessage& message) {
  return as<What>(message.what);
}
template <class What, class Order>
bool is(const Order& order) {
  return std::holds_alternative<What>(order);
}

}  // namespace paceline::coordinator
