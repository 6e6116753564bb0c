// The reason of a refusal, as a value besides the text.
#pragma once

#include <string>
#include <utility>

#include <absl/status/status.h>

#include "paceline/formats/wire/disconnect.h"

namespace paceline::coordinator {

struct Refusal {
  std::string why;
  wire::Disconnect::Reason reason = wire::Disconnect::NONE;
};

inline Refusal place_taken(const std::string& whose) {
  return {whose + " is here already", wire::Disconnect::PLACE_TAKEN};
}
inline Refusal host_given_up(const std::string& which) {
  return {which + " was given up, and the run goes on without it", wire::Disconnect::HOST_GIVEN_UP};
}

}  // namespace paceline::coordinator
