#include "paceline/formats/config/program_config.h"

#include <absl/strings/match.h>

namespace paceline::config {

std::optional<ProgramConfig> read_program(Section& top, Complaints& complaints) {
  if (!top.has("program")) return std::nullopt;
  static const std::vector<std::string> kWeights = {"view", "copy"};
  Section section(top.table("program"), "program", complaints);
  ProgramConfig program;
  program.run = section.text("run", "");
  program.module = section.text("module", "");
  if (program.run.empty() && program.module.empty())
    section.complain("run", "write the script or the executable that trains, for example \"train.py\"");
  if (!program.run.empty() && !program.module.empty())
    section.complain("module", "a program is a module, or what `run` names; leave one of the two out");
  program.args = section.texts("args");
  program.python = section.text("python", program.python);
  if (program.python.empty()) section.complain("python", "write the Python that runs it, or leave it out");
  program.directory = section.text("directory", "");
  program.step_limit_s = section.number("step_limit_s", 0, 0, 1e6);
  program.after_limit_s = section.number("after_limit_s", program.after_limit_s, 0, 1e6);
  program.weights = kWeights[section.choice("weights", 0, kWeights)];
  section.finish();
  return program;
}

std::vector<std::string> command_of(const ProgramConfig& program) {
  std::vector<std::string> command;
  const bool is_module = !program.module.empty();
  if (is_module || absl::EndsWith(program.run, ".py")) command.push_back(program.python);
  if (is_module) command.emplace_back("-m");
  command.push_back(named(program));
  command.insert(command.end(), program.args.begin(), program.args.end());
  return command;
}

const std::string& named(const ProgramConfig& program) {
  return program.module.empty() ? program.run : program.module;
}

}  // namespace paceline::config
