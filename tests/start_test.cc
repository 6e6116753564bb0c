// Processes that compute nothing start without libtorch, and stay small.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

constexpr long kMostKilobytes = 30'000;

struct Started {
  int status = 0;
  long kilobytes = 0;     // the most memory that it had at once
  std::string libraries;  // libraries that it and its children loaded, from the dynamic linker's log
};

class Start : public testing::Test {
 protected:
  Started start(const std::vector<std::string>& arguments) const {
    const fs::path log = folder_ / "loaded";
    fs::create_directory(log);
    std::vector<std::string> words = arguments;
    words.insert(words.begin(), program_);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      const int nowhere = open("/dev/null", O_WRONLY);
      dup2(nowhere, STDOUT_FILENO);
      dup2(nowhere, STDERR_FILENO);
      setenv("LD_DEBUG", "files", 1);
      setenv("LD_DEBUG_OUTPUT", (log / "of").c_str(), 1);
      execv(program_.c_str(), pointers.data());
      _exit(127);
    }
    Started started;
    rusage used{};
    wait4(pid, &started.status, 0, &used);
    started.kilobytes = used.ru_maxrss;
    for (const auto& entry : fs::directory_iterator(log)) started.libraries += read_text(entry.path());
    fs::remove_all(log);
    return started;
  }

  void expect_small(const std::vector<std::string>& arguments) const {
    const Started started = start(arguments);
    const std::string words = fmt::format("{}", fmt::join(arguments, " "));
    EXPECT_EQ(started.status, 0) << words;
    EXPECT_NE(started.libraries.find("libc.so"), std::string::npos) << words << ": nothing was watched";
    EXPECT_EQ(started.libraries.find("libtorch"), std::string::npos) << words;
    EXPECT_LT(started.kilobytes, kMostKilobytes) << words;
  }

  static bool has_libtorch(pid_t pid) {
    return read_text(fmt::format("/proc/{}/maps", pid)).find("libtorch") != std::string::npos;
  }

  const TempFolder folder_;
  const std::string program_ = [] {
    const std::string line = run_in_shell("echo $PACELINE").output;
    return line.substr(0, line.find('\n'));
  }();
};

TEST_F(Start, CommandsThatComputeNothingLoadNoLibtorch) {
  write_text(folder_ / "scenario.toml", "iterations = 10\n[[device]]\ncount = 2\n");
  write_text(folder_ / "times.txt", "a:1,2,3\nb:2,4,6\n");
  expect_small({"--version"});
  expect_small({"--help"});
  expect_small({"zipline", (folder_ / "times.txt").string()});
  expect_small({"simulate", (folder_ / "scenario.toml").string()});
  expect_small({"plan", "examples/plan/static-mix.toml"});
  expect_small({"certs", (folder_ / "certs").string()});
  expect_small({"doctor"});
}

TEST_F(Start, WhatReadsARunLoadsNoLibtorch) {
  const std::string job = small_job(folder_.path(), "epochs = 0.1\n").string();
  const Started trained = start({"train", job, "--virtual"});
  ASSERT_EQ(trained.status, 0);
  EXPECT_NE(trained.libraries.find("libtorch"), std::string::npos) << "or it would never be seen";
  const std::string run = only_run(folder_ / "runs").string();
  expect_small({"report", run});
  expect_small({"report", run, "--time"});
  expect_small({"replay", run});
}

// Each further worker costs what it writes to, not what libtorch and the data take.
TEST_F(Start, WorkersShareLibtorchAndTheData) {
  constexpr long kMostOfItsOwn_kB = 30'000, kAtLeastShared_kB = 110'000;
  constexpr std::size_t kText = 64 << 20;
  write_text(folder_ / "text", std::string(kText, 'x'));
  const std::string job = small_job(folder_.path(), "epochs = 200\n[[device]]\ncount = 3\n").string();
  Program program({"train", job, "--set", "data.source=text:" + (folder_ / "text").string(), "--set",
                   fmt::format("data.max_bytes={}", kText)});
  ASSERT_TRUE(program.until([&] { return metrics_so_far(folder_ / "runs") >= 1; }));
  for (const char* name : {"w0", "w1", "w2"}) {
    const pid_t worker = children(program.pid(), name).at(0);
    const std::string memory = read_text(fmt::format("/proc/{}/smaps_rollup", worker));
    const auto kilobytes = [&](const std::string& key) {
      return std::atol(memory.c_str() + memory.find("\n" + key + ":") + key.size() + 2);
    };
    EXPECT_LT(kilobytes("Private_Dirty"), kMostOfItsOwn_kB) << name;
    // Pages that the system has swapped out are still shared.
    EXPECT_GT(kilobytes("Shared_Dirty") + kilobytes("Swap"), kAtLeastShared_kB)
        << name << " loaded it for itself";
  }
}

// The launcher only starts processes; those that compute have libtorch.
TEST_F(Start, WhatStartsALiveRunLoadsNoLibtorch) {
  const std::string job = small_job(folder_.path(), "epochs = 200\n").string();
  for (const std::string command : {"train", "node"}) {
    std::vector<std::string> words = {command, job};
    if (command == "node") words.insert(words.end(), {"--rank", "0", "--hosts", "1"});
    Program program(words);
    std::vector<pid_t> workers;
    ASSERT_TRUE(program.until([&] {
      workers = children(program.pid(), "worker");
      return !workers.empty() && has_libtorch(workers.front());
    }));
    EXPECT_FALSE(has_libtorch(program.pid())) << command;
    program.signal(SIGKILL);
    program.wait();
    fs::remove_all(folder_ / "runs");
  }
}

}  // namespace
}  // namespace paceline::tests
