// The state of a run, as a reader of its folder sees it: it trains, has finished, was stopped or failed.
#pragma once

#include <string>

#include "paceline/records/store/run_folder.h"

namespace paceline::ui {

enum class RunState {
  kStarting,  // a process leads it, and nothing is recorded yet
  kTraining,
  kFinished,
  kStopped,
  kFailed,  // ended with an error
  kLost,    // cut short
};
std::string to_string(RunState state);

struct StateOfRun {
  RunState state = RunState::kStarting;
  std::string why{};  // a line for people; empty: nothing to say
  bool led() const { return state == RunState::kStarting || state == RunState::kTraining; }
};

// Takes no lock, so that a process that wants to lead the run gets it.
StateOfRun state_of(const store::RunPaths& run);

}  // namespace paceline::ui
