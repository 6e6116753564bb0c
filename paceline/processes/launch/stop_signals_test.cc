#include "paceline/processes/launch/stop_signals.h"

#include <csignal>

#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

// A script without job control starts a command with "&" like this: Ctrl-C is for the script's other
// commands.
TEST(StopSignals, StayIgnoredIfTheStarterIgnoresThem) {
  for (const int number : {SIGINT, SIGHUP}) {
    std::signal(number, SIG_IGN);
    catch_stop_signals();
    EXPECT_EQ(std::signal(number, SIG_DFL), SIG_IGN) << number;
    catch_stop_signals();
    EXPECT_NE(std::signal(number, SIG_DFL), SIG_DFL) << number;
  }
}

}  // namespace
}  // namespace paceline::launch
