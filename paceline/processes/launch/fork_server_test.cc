// Forks that are children of this process, whatever happens to their server. The program that is loaded once
// is this test itself.
#include "paceline/processes/launch/fork_server.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "paceline/base/exit_reason.h"
#include "paceline/processes/peer/exit_report.h"

namespace paceline::launch {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The words of main(), at their place in memory.
std::vector<char*> own_words() {
  const std::string stat = read_text("/proc/self/stat");
  // Field 48 is the address of the command line; fields are counted from behind the name, which is the
  // second.
  std::size_t at = stat.rfind(')') + 1;
  for (int field = 2; field < 48; ++field) at = stat.find(' ', at) + (field < 47 ? 1 : 0);
  char* word = reinterpret_cast<char*>(std::strtoull(stat.c_str() + at, nullptr, 10));
  std::vector<char*> words;
  const std::string line = read_text("/proc/self/cmdline");
  for (std::size_t i = 0; i < line.size(); i = line.find('\0', i) + 1) words.push_back(word + i);
  return words;
}

// The body of the other processes that the tests start.
TEST(DISABLED_ForkServer, Forks) {
  std::vector<char*> own = own_words();
  const auto words = serve_forks(static_cast<int>(own.size()), own.data());
  if (!words) return;
  fmt::print("{}; {}", fmt::join(*words, " "), read_text("/proc/self/cmdline").c_str());
  std::fflush(stdout);
  if (words->back() == "wait") pause();
  peer::report_exit(with_exit_reason(absl::UnavailableError("that was all"), ExitReason::kRunFailed));
  _exit(3);
}

// A server with several threads cannot know which locks the others hold.
TEST(DISABLED_ForkServer, HasTwoThreads) {
  std::thread([] { pause(); }).detach();
  std::vector<char*> own = own_words();
  EXPECT_FALSE(serve_forks(static_cast<int>(own.size()), own.data()));
}

class ForkServerTest : public testing::Test {
 protected:
  ForkServerTest() {
    std::string name = (fs::temp_directory_path() / "paceline-forks-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    log_ = folder_ / "w0.log";
    alarm(60);
  }
  ~ForkServerTest() override {
    alarm(0);
    fs::remove_all(folder_);
  }

  static ForkServer server(const std::string& does = "Forks") {
    auto started = ForkServer::start(ChildProgram::kThis, {"--gtest_also_run_disabled_tests",
                                                           "--gtest_filter=DISABLED_ForkServer." + does});
    EXPECT_TRUE(started.ok()) << started.status();
    return *std::move(started);
  }

  absl::StatusOr<ChildProcess> fork(ForkServer& from, const std::vector<std::string>& words) const {
    return from.start_child("w0", words, log_.string());
  }

  bool waits() const {
    for (int i = 0; i < 10'000 && read_text(log_).empty(); ++i) usleep(1000);
    return !read_text(log_).empty();
  }

  fs::path folder_, log_;
};

TEST_F(ForkServerTest, AForkHasItsWordsItsLogAndItsExitReport) {
  ForkServer forks = server();
  auto child = fork(forks, {"worker", "--name", "w0"});
  ASSERT_TRUE(child.ok()) << child.status();
  const ChildProcess::End end = child->wait();
  EXPECT_EQ(WEXITSTATUS(end.wait_status), 3);
  EXPECT_EQ(end.said.reason, ExitReason::kRunFailed);
  EXPECT_EQ(end.said.message, "that was all");
  EXPECT_NE(read_text(log_).find("paceline worker --name w0; paceline"), std::string::npos)
      << read_text(log_);
}

TEST_F(ForkServerTest, ToolsSeeTheCommandLineOfTheFork) {
  ForkServer forks = server();
  auto child = fork(forks, {"worker", "wait"});
  ASSERT_TRUE(child.ok() && waits()) << child.status();
  const std::string shown = read_text(fmt::format("/proc/{}/cmdline", child->pid()));
  using std::string_literals::operator""s;
  EXPECT_EQ(shown.substr(0, 21), "paceline\0worker\0wait\0"s);
  EXPECT_EQ(shown.find_first_not_of('\0', 21), std::string::npos);
}

TEST_F(ForkServerTest, AForkIsAChildInAGroupOfItsOwnAndOutlivesTheServer) {
  std::optional<ForkServer> forks = server();
  auto child = fork(*forks, {"wait"});
  ASSERT_TRUE(child.ok() && waits()) << child.status();
  forks.reset();
  EXPECT_FALSE(child->ended());
  EXPECT_EQ(getpgid(child->pid()), child->pid());
  child->signal(SIGTERM);
  child->signal(SIGINT);
  usleep(20'000);
  EXPECT_FALSE(child->ended()) << "signals to all processes are for their starter";
  child->signal(SIGKILL);
  EXPECT_TRUE(child->wait().killed());
}

TEST_F(ForkServerTest, LeavesNoProcessBehindWhenItsForkIsKilled) {
  ForkServer forks = server();
  pid_t pid = -1;
  {
    auto child = fork(forks, {"wait"});
    ASSERT_TRUE(child.ok() && waits()) << child.status();
    pid = child->pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(ForkServerTest, DiesWithTheProcessThatAskedForIt) {
  const pid_t starter = ::fork();
  if (starter == 0) {
    ForkServer forks = server();
    auto child = fork(forks, {"wait"});
    std::ofstream(folder_ / "pid") << (child.ok() ? child->pid() : -1) << std::flush;
    kill(getpid(), SIGKILL);
  }
  waitpid(starter, nullptr, 0);
  const pid_t pid = std::atoi(read_text(folder_ / "pid").c_str());
  ASSERT_GT(pid, 0);
  for (int i = 0; i < 10'000 && kill(pid, 0) == 0; ++i) usleep(1000);
  const std::string state = read_text(fmt::format("/proc/{}/stat", pid));
  EXPECT_TRUE(state.empty() || state.find(") Z") != std::string::npos) << state;
}

TEST_F(ForkServerTest, AServerThatIsGoneOrCannotForkSaysSo) {
  for (const char* does : {"HasTwoThreads", "NothingAtAll"}) {
    ForkServer forks = server(does);
    EXPECT_TRUE(absl::IsUnavailable(fork(forks, {"wait"}).status())) << does;
  }
  ForkServer forks = server();
  EXPECT_TRUE(absl::IsUnavailable(fork(forks, {std::string(100'000, 'x')}).status()));
}

TEST_F(ForkServerTest, MakesManyOneAfterTheOther) {
  ForkServer forks = server();
  std::vector<ChildProcess> all;
  for (int i = 0; i < 50; ++i) {
    auto child = fork(forks, {fmt::format("w{}", i)});
    ASSERT_TRUE(child.ok()) << child.status();
    all.push_back(*std::move(child));
  }
  for (ChildProcess& one : all) EXPECT_EQ(one.wait().said.message, "that was all");
}

}  // namespace
}  // namespace paceline::launch
