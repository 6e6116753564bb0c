// `paceline generate DIR`: the man pages, and the completions of shells, as the program itself says. The
// build runs it; people are not told of it.
#pragma once

#include <filesystem>

#include <absl/status/status.h>

#include "paceline/tools/cli/command_text.h"

namespace paceline::cli {

// Writes the files to their places under /usr: share/man/man1/paceline.1 and so on. Errors: `dir` cannot be
// written.
absl::Status generate_command(const ProgramText& words, const std::filesystem::path& dir);

}  // namespace paceline::cli
