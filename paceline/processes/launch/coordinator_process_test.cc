#include "paceline/processes/launch/coordinator_process.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "paceline/processes/launch/stop_signals.h"

namespace paceline::launch {
namespace {

namespace fs = std::filesystem;

// A coordinator may take long to read a checkpoint, and people still want to stop it.
TEST(CoordinatorProcessDeathTest, AStopEndsItsStart) {
  std::string name = (fs::temp_directory_path() / "paceline-start-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  fs::create_directory(folder / "logs");
  const auto start = [&] {
    catch_stop_signals();
    std::raise(SIGTERM);
    const auto listening = listen_at("127.0.0.1:0");
    const auto started = start_coordinator_process(folder, {}, *listening);
    std::_Exit(started.ok() && absl::IsCancelled(started->address.status()) ? 0 : 1);
  };
  EXPECT_EXIT(start(), testing::ExitedWithCode(0), "");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace paceline::launch
