// Facts and orders in words, each in one line with every field: for error texts, differences and tests. Not
// for machines.
#pragma once

#include <string>

#include "paceline/control/facts.h"
#include "paceline/control/orders.h"

namespace paceline::control {

std::string to_string(const Fact& fact);
std::string to_string(const CommitMember& member);
std::string to_string(const ControllerState& state);
// Of a commit: first what concerns all members, then each of them, however many.
std::string to_string(const Order& order);

}  // namespace paceline::control
