// Facts and orders in words, each in one line with every field: for error texts, differences and tests. Not
// for machines.
#pragma once

#include <string>

#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/orders.h"

namespace paceline::control {

std::string to_string(const Fact& fact);
std::string to_string(const CommitMember& member);
std::string to_string(const ControllerState& state);
// A commit is told with what concerns all members first, then each of them, however many.
std::string to_string(const Order& order);

}  // namespace paceline::control
