// For tests: the text of the Controller's state as a run folder has it.
#pragma once

#include "paceline/decisions/coordinator/state_text.h"
#include "paceline/records/store/controller_state_json.h"

namespace paceline::coordinator {

inline StateText text_of_state() {
  return {.write = [](const control::ControllerState& state) { return store::to_text(state); },
          .read = store::controller_state_from_text};
}

}  // namespace paceline::coordinator
