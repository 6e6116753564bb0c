#include "paceline/base/core_dumps.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace paceline {
namespace {

std::string filter() {
  std::ifstream file("/proc/self/coredump_filter");
  std::string text;
  file >> text;
  return text;
}

bool holds_in_child(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(CoreDumps, HaveNoMemoryWhereThereAreSecrets) {
  EXPECT_TRUE(holds_in_child([] {
    const std::string before = filter();
    keep_memory_out_of_core_dumps();
    keep_memory_out_of_core_dumps();
    return before != "00000010" && filter() == "00000010";
  }));
}

TEST(CoreDumps, AreRestoredForAnotherPersonsProgram) {
  for (const char* before : {"0x33", "0x7f"}) {
    EXPECT_TRUE(holds_in_child([&] {
      std::ofstream("/proc/self/coredump_filter") << before;
      const std::string was = filter();
      keep_memory_out_of_core_dumps();
      put_memory_into_core_dumps();
      return filter() == was;
    }));
  }
}

// A process that never had secrets changes nothing.
TEST(CoreDumps, AreLeftAlone) {
  EXPECT_TRUE(holds_in_child([] {
    std::ofstream("/proc/self/coredump_filter") << "0x7f";
    put_memory_into_core_dumps();
    return filter() == "0000007f";
  }));
}

// The parent had secrets and passed its setting on.
TEST(CoreDumps, HaveLinuxsDefaultInAGrandchild) {
  EXPECT_TRUE(holds_in_child([] {
    std::ofstream("/proc/self/coredump_filter") << "0x10";
    keep_memory_out_of_core_dumps();
    put_memory_into_core_dumps();
    return filter() == "00000033";
  }));
}

}  // namespace
}  // namespace paceline
