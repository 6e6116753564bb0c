#include "paceline/tools/cli/generate_command.h"

#include <system_error>

#include <fmt/format.h>

#include "paceline/base/program_version.h"
#include "paceline/base/status_macros.h"
#include "paceline/tools/cli/output.h"

namespace paceline::cli {

namespace {

absl::Status write_to(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) {
    return absl::UnavailableError(fmt::format("{}: cannot be made: {}; name a folder of yours",
                                              path.parent_path().string(), error.message()));
  }
  return write_output(path.string(), text);
}

}  // namespace

absl::Status generate_command(const ProgramText& words, const std::filesystem::path& dir) {
  const std::string& program = words.program.name;
  const std::filesystem::path share = dir / "share";
  PACELINE_RETURN_IF_ERROR(
      write_to(share / "man/man1" / (program + ".1"), man_page(words, program, kProgramVersion)));
  for (const CommandText& command : words.commands) {
    PACELINE_RETURN_IF_ERROR(write_to(share / "man/man1" / fmt::format("{}-{}.1", program, command.name),
                                      man_page(words, command.name, kProgramVersion)));
  }
  PACELINE_RETURN_IF_ERROR(
      write_to(share / "bash-completion/completions" / program, completions(words, "bash")));
  PACELINE_RETURN_IF_ERROR(
      write_to(share / "zsh/vendor-completions" / ("_" + program), completions(words, "zsh")));
  return write_to(share / "fish/vendor_completions.d" / (program + ".fish"), completions(words, "fish"));
}

}  // namespace paceline::cli
