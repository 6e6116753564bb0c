// The state of a Controller that survives a restart, as of one commit.
#pragma once

#include <map>
#include <string>

#include "paceline/base/ids.h"
#include "paceline/decisions/control/sample_ledger.h"

namespace paceline::control {

struct ControllerState {
  Version version;
  SampleLedger::Saved ledger;           // leases in flight count as given back
  std::map<std::string, Clock> clocks;  // committed iterations, by replica name
  friend bool operator==(const ControllerState&, const ControllerState&) = default;
};

}  // namespace paceline::control
