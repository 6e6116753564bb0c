// Whether a run trains, has finished, was stopped or failed, as its folder says to a reader.
#pragma once

#include <string>

#include "paceline/store/run_folder.h"

namespace paceline::ui {

enum class RunState {
  kStarting,  // somebody leads it, and nothing is recorded yet
  kTraining,
  kFinished,
  kStopped,
  kFailed,  // it ended with an error
  kLost,    // it was cut short
};
std::string to_string(RunState state);

struct StateOfRun {
  RunState state = RunState::kStarting;
  std::string why{};  // a line for people; empty: there is nothing to say
  bool led() const { return state == RunState::kStarting || state == RunState::kTraining; }
};

// Takes no lock, so that a process that wants to lead the run gets it.
StateOfRun state_of(const store::RunPaths& run);

}  // namespace paceline::ui
