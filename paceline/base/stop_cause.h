// Why a run is to stop before its job is done.
#pragma once

namespace paceline {

enum class StopCause {
  kAsked,        // a person who looks at the run asked, or its own processes did
  kInterrupted,  // the command of a host was interrupted: by Ctrl-C, or the end of its terminal
  // a host's command got SIGTERM, for example from an init system: the same command goes on with the run
  // later
  kShutDown,
};

}  // namespace paceline
