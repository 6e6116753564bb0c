#include "paceline/records/store/state_text.h"

#include "paceline/records/store/controller_state_json.h"

namespace paceline::store {

coordinator::StateText state_text() {
  return {.write = [](const control::ControllerState& state) { return to_text(state); },
          .read = controller_state_from_text};
}

}  // namespace paceline::store
