#include "paceline/launch/say.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "paceline/launch/stop_signals.h"

namespace paceline::launch {
namespace {

TEST(Say, GoesOnWhereNobodyReads) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::FILE* out = fdopen(ends[1], "w");
  ASSERT_NE(out, nullptr);
  catch_stop_signals();
  say(out, "one line\n");
  std::string read_back(9, '\0');
  EXPECT_EQ(read(ends[0], read_back.data(), read_back.size()), 9);
  EXPECT_EQ(read_back, "one line\n");
  close(ends[0]);
  say(out, "another one\n");
  std::fclose(out);
}

}  // namespace
}  // namespace paceline::launch
