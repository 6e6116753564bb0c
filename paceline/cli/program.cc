#include "paceline/cli/program.h"

#include <sys/prctl.h>

#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "paceline/cli/version.h"
#include "paceline/launch/say.h"
#include "paceline/launch/stop_signals.h"

namespace paceline::cli {

namespace {

constexpr int kExitOfError = 2;

}  // namespace

absl::StatusOr<int> exit_of(const absl::Status& status) {
  if (!status.ok()) return status;
  return 0;
}

int run_program(CLI::App& app, const Command& command, int argc, char** argv) {
  // For top and pgrep: a child that was started through /proc/self/exe is called "exe" otherwise.
  prctl(PR_SET_NAME, app.get_name().c_str());
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  app.set_version_flag("--version", fmt::format("paceline {}", kVersion));
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "paceline: {}; see paceline --help\n", error.what());
    return kExitOfError;
  }
  const absl::StatusOr<int> status = command();
  if (status.ok()) return *status;
  launch::say(stderr, fmt::format("paceline: {}\n", std::string(status.status().message())));
  return absl::IsCancelled(status.status()) ? launch::exit_of_stop() : kExitOfError;
}

}  // namespace paceline::cli
