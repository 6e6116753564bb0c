// The reason of a refusal, as a value besides the text.
#pragma once

#include <string>
#include <utility>

#include "paceline/decisions/coordinator/process_orders.h"

namespace paceline::coordinator {

struct Refusal {
  std::string why;
  Disconnect::Reason reason = Disconnect::Reason::kNone;
};

inline Refusal place_taken(const std::string& whose) {
  return {whose + " is here already", Disconnect::Reason::kPlaceTaken};
}
inline Refusal host_given_up(const std::string& which) {
  return {which + " was given up, and the run goes on without it", Disconnect::Reason::kHostGivenUp};
}

}  // namespace paceline::coordinator
