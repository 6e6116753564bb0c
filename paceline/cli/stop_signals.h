// Ctrl-C and SIGTERM as something to ask for, instead of an end. The one piece of process-wide state, because
// signals are.
#pragma once

namespace paceline::cli {

// From now on the two signals only count. To be called by a command that stops cleanly itself.
void catch_stop_signals();

// How often one of them came.
int stop_signals();
// The last one's number; 0: none came.
int last_stop_signal();

}  // namespace paceline::cli
