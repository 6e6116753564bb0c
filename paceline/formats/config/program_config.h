// [program]: a user's program that computes the gradients, instead of a built-in model. A process that got
// the job over the wire does not start a program that this job names: it starts only the one in the job file
// of its own host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/formats/config/section.h"

namespace paceline::config {

struct ProgramConfig {
  std::string run;                 // a script for `python`, when it ends in .py; else an executable, or
                                   // a script all the same if nobody may execute it
  std::string module;              // for `python -m`, instead of `run`
  std::vector<std::string> args;   // arguments of the program
  std::string python = "python3";  // looked for in PATH, unless it is a path
  std::string directory;           // working directory; empty: where the job was started
  double step_limit_s = 0;         // an iteration that takes longer ends its worker; 0: no limit
  double after_limit_s = 600;      // longest time that the program may go on after the job; 0: no limit
  std::string weights = "view";    // or "copy": the program may write to its weights

  friend bool operator==(const ProgramConfig&, const ProgramConfig&) = default;
};

// nullopt if the job has no such table.
std::optional<ProgramConfig> read_program(Section& top, Complaints& complaints);

// The command line: the interpreter, if there is one, the program, its arguments.
std::vector<std::string> command_of(const ProgramConfig& program);

// The program as the job names it: "dir/train.py", "project.train".
const std::string& named(const ProgramConfig& program);

}  // namespace paceline::config
