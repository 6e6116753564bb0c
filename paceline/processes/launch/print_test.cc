#include "paceline/processes/launch/print.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "paceline/processes/launch/stop_signals.h"

namespace paceline::launch {
namespace {

TEST(Print, GoesOnWhereNobodyReads) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::FILE* out = fdopen(ends[1], "w");
  ASSERT_NE(out, nullptr);
  catch_stop_signals();
  print(out, "one line\n");
  std::string read_back(9, '\0');
  EXPECT_EQ(read(ends[0], read_back.data(), read_back.size()), 9);
  EXPECT_EQ(read_back, "one line\n");
  close(ends[0]);
  print(out, "another one\n");
  std::fclose(out);
}

}  // namespace
}  // namespace paceline::launch
