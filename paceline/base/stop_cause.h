// Why a run is to stop before its job is done.
#pragma once

namespace paceline {

enum class StopCause {
  kAsked,        // somebody who looks at the run wants it, or its own processes do
  kInterrupted,  // the command of a host was interrupted: by Ctrl-C, or the end of its terminal
  kShutDown,     // it got SIGTERM, as from an init system: the same command goes on with the run later
};

}  // namespace paceline
