// A program's description of its model from before the run: `python train.py` builds its model, finds that no
// worker has started it, and becomes `paceline run` of itself. So it need not be started again for the
// description.
#pragma once

#include <optional>
#include <string>

#include "paceline/computing/program/messages.h"

namespace paceline::program {

// `said`, a line each: the parts of a start message that the answer depends on, and the answer. Nothing if
// `start` has other ones, or if the answer is no model: the program is asked then. Pure.
std::optional<Model> model_said_before(const std::string& said, const StartMessage& start);

// Takes the text that the process that became this one left in an open file whose descriptor the environment
// names. The file is closed, and its name forgotten, so that no process that this one starts sees it. Empty if
// there is no such file.
std::string take_said();

}  // namespace paceline::program
