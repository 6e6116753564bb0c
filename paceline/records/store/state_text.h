// The Controller's state as the coordinator has servers keep it: the text that a journal has.
#pragma once

#include "paceline/decisions/coordinator/state_text.h"

namespace paceline::store {

coordinator::StateText state_text();

}  // namespace paceline::store
