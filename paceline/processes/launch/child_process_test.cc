// The output of a child, in a folder that another person may have made.
#include "paceline/processes/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/file_descriptor.h"

namespace paceline::launch {
namespace {

namespace fs = std::filesystem;

class ChildProcessTest : public ::testing::Test {
 protected:
  ChildProcessTest() {
    std::string name = (fs::temp_directory_path() / "paceline-child-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    log_ = folder_ / "w0.log";
    alarm(20);  // the test would wait forever for a reader of the pipe
  }
  ~ChildProcessTest() override {
    alarm(0);
    fs::remove_all(folder_);
  }

  absl::Status start() const {
    return ChildProcess::start(ChildProgram::kThis, "w0", {"--gtest_list_tests"}, log_.string()).status();
  }

  void expect_refused() const {
    const absl::Status started = start();
    EXPECT_NE(started.message().find("w0.log: cannot write: it is no plain file"), std::string::npos)
        << started;
  }

  fs::path folder_, log_;
};

TEST_F(ChildProcessTest, AppendsToItsLog) {
  auto child = ChildProcess::start(ChildProgram::kThis, "w0", {"--gtest_list_tests"}, log_.string());
  ASSERT_TRUE(child.ok()) << child.status();
  while (!child->ended()) usleep(1000);
  EXPECT_EQ(child->ended()->wait_status, 0);
  EXPECT_GT(fs::file_size(log_), 0u);
}

// Our input belongs to the shell's loop: while read job; do paceline train $job; done < jobs
TEST_F(ChildProcessTest, ReadsNothingOfOurInput) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor read_end(ends[0]), write_end(ends[1]);
  const FileDescriptor before(dup(STDIN_FILENO));
  ASSERT_EQ(dup2(read_end.get(), STDIN_FILENO), STDIN_FILENO);
  const int parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    const bool settled = settle_child(STDERR_FILENO, parent);
    _exit(settled && read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1);  // a pipe would make it wait
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  dup2(before.get(), STDIN_FILENO);
}

TEST_F(ChildProcessTest, APipeIsNoLog) {
  ASSERT_EQ(mkfifo(log_.c_str(), 0600), 0);
  expect_refused();
  const FileDescriptor reader(open(log_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  expect_refused();
}

TEST_F(ChildProcessTest, ALinkIsNoLog) {
  fs::create_symlink(folder_ / "elsewhere", log_);
  expect_refused();
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

void write_text(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

// A control group of this process with a memory limit, if one can be made.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::int64_t bytes) {
    const bool first_version = fs::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    const fs::path all = first_version ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const std::size_t at = line.rfind(':');
      const bool memory = line.find(":memory:") != std::string::npos || (!first_version && line[0] == '0');
      if (memory && at != std::string::npos) before_ = all / line.substr(at + 2);
    }
    group_ = all / fmt::format("paceline-test-{}", getpid());
    std::error_code error;
    if (!fs::create_directory(group_, error)) return;
    write_text(group_ / (first_version ? "memory.limit_in_bytes" : "memory.max"), std::to_string(bytes));
    write_text(group_ / "memory.swap.max", "0");
    write_text(group_ / "cgroup.procs", std::to_string(getpid()));
    std::ifstream inside(group_ / "cgroup.procs");
    works_ = static_cast<pid_t>(std::atoi(std::string(std::istreambuf_iterator<char>(inside), {}).c_str())) ==
             getpid();
  }
  ~MemoryGroup() {
    if (works_) write_text(before_ / "cgroup.procs", std::to_string(getpid()));
    rmdir(group_.c_str());
  }
  bool works() const { return works_; }

 private:
  fs::path before_, group_;
  bool works_ = false;
};

// The body of another process that the tests start.
TEST(DISABLED_Memory, IsUsedUp) {
  std::vector<std::vector<char>> all;
  while (true) all.emplace_back(std::size_t{4} << 20, 'x');
}

TEST_F(ChildProcessTest, ReportsAKillForMemory) {
  const MemoryGroup group(std::int64_t{128} << 20);
  if (!group.works()) GTEST_SKIP() << "no control group with a memory limit can be made here";
  auto child = ChildProcess::start(
      ChildProgram::kThis, "w0",
      {"--gtest_also_run_disabled_tests", "--gtest_filter=DISABLED_Memory.IsUsedUp"}, log_.string());
  ASSERT_TRUE(child.ok()) << child.status();
  while (!child->ended()) usleep(1000);
  EXPECT_EQ(child->ended()->in_words(), "out of memory: killed by signal 9 (Killed)");
  EXPECT_NE(reason_of(*child, *child->ended()).message().find("out of memory"), std::string::npos);
}

TEST(DISABLED_Memory, IsNotUsed) {
  while (true) pause();
}

TEST_F(ChildProcessTest, ReportsNoKillForMemoryIfAPersonKillsIt) {
  auto child = ChildProcess::start(
      ChildProgram::kThis, "w0",
      {"--gtest_also_run_disabled_tests", "--gtest_filter=DISABLED_Memory.IsNotUsed"}, log_.string());
  ASSERT_TRUE(child.ok()) << child.status();
  child->signal(SIGKILL);
  while (!child->ended()) usleep(1000);
  EXPECT_EQ(child->ended()->in_words(), "killed by signal 9 (Killed)");
}

// A process that ends because `program`, a child of its own, was killed.
absl::StatusOr<ChildProcess> start_with_program(const std::string& log, void (*program)()) {
  return ChildProcess::start("w0", log, [program](int, int exit_report) -> absl::StatusOr<pid_t> {
    const pid_t child = fork();
    if (child != 0) return child;
    const pid_t its_own = fork();
    if (its_own == 0) program();
    waitpid(its_own, nullptr, 0);
    peer::use_exit_descriptor(FileDescriptor(exit_report));
    peer::report_exit(
        with_exit_reason(absl::FailedPreconditionError("train.py: the program ended"), ExitReason::kKilled));
    _exit(2);
  });
}

TEST_F(ChildProcessTest, AKilledProgramCountsAsAKilledProcess) {
  auto child = start_with_program(log_.string(), [] { raise(SIGKILL); });
  ASSERT_TRUE(child.ok()) << child.status();
  while (!child->ended()) usleep(1000);
  EXPECT_TRUE(child->ended()->killed());
  EXPECT_EQ(child->ended()->in_words(), "train.py: the program ended");
  EXPECT_EQ(reason_of(*child, *child->ended()).message(), "train.py: the program ended");
}

TEST_F(ChildProcessTest, ReportsAKillOfAProgramForMemory) {
  const MemoryGroup group(std::int64_t{128} << 20);
  if (!group.works()) GTEST_SKIP() << "no control group with a memory limit can be made here";
  auto child = start_with_program(log_.string(), [] {
    std::vector<std::vector<char>> all;
    while (true) all.emplace_back(std::size_t{4} << 20, 'x');
  });
  ASSERT_TRUE(child.ok()) << child.status();
  while (!child->ended()) usleep(1000);
  EXPECT_EQ(child->ended()->in_words(), "out of memory: train.py: the program ended");
}

}  // namespace
}  // namespace paceline::launch
