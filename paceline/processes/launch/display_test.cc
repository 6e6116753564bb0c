// The lines in a log file: never the same line twice, and at once what the run waits for.
#include "paceline/processes/launch/display.h"

#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

wire::StatusReply reply(const std::string& phase, const std::string& line,
                        const std::string& waits_for = "") {
  wire::StatusReply made;
  made.set_phase(phase);
  made.set_line(line);
  made.set_waits_for(waits_for);
  return made;
}

TEST(Display, ALogGetsEachStepOfTheStartOnce) {
  testing::internal::CaptureStderr();
  Display display("bsp", Shown::kLine);
  display.show(reply("starting: 0 of 2 workers are here", ""));
  display.show(reply("starting: 0 of 2 workers are here", ""));
  display.show(reply("starting: 2 of 2 workers are here", ""));
  display.show(reply("training", "1 %"));  // lines of progress come now and then
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "bsp  starting: 0 of 2 workers are here\nbsp  starting: 2 of 2 workers are here\n");
}

TEST(Display, ARunThatHasTrainedSaysWhatItWaitsFor) {
  testing::internal::CaptureStderr();
  Display display("bsp", Shown::kLine);
  display.show(reply("training", "100 %"));
  display.show(reply("finishing: waiting for 2 evaluations", "100 %", "2 evaluations"));
  display.show(reply("finishing: waiting for 2 evaluations", "100 %", "2 evaluations"));
  display.show(reply("finishing: waiting for 1 evaluation", "100 %", "1 evaluation"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "bsp  100 %\nbsp  trained; waiting for 2 evaluations\nbsp  trained; waiting for 1 evaluation\n");
}

}  // namespace
}  // namespace paceline::launch
