// Processes that watch a run: evaluations that are asked for from outside, the metrics of [monitor], and
// `paceline top` on a terminal. None of them changes what is trained.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/tools/cli/ask_run.h"
#include "tests/http_get.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kDevices[] = "[[device]]\ncount = 2\npace_ms = 20\n";

std::string token_of(const fs::path& run) {
  std::string token = read_text(run / "token");
  while (!token.empty() && token.back() == '\n') token.pop_back();
  return token;
}

// The bytes of the weights, the optimizer's state and the batch-norm statistics after the last commit.
std::map<std::string, std::string> last_checkpoint(const fs::path& run) {
  fs::path newest;
  for (const auto& one : fs::directory_iterator(run / "checkpoints")) newest = std::max(newest, one.path());
  std::map<std::string, std::string> files;
  for (const auto& one : fs::recursive_directory_iterator(newest)) {
    if (one.is_regular_file() && one.path().extension() != ".json")
      files[one.path().filename().string()] = read_text(one.path());
  }
  EXPECT_FALSE(files.empty()) << newest;
  return files;
}

// A page may ask whenever it likes: the weights are the same as without any request.
TEST(Watching, AnEvaluationThatIsAskedForChangesNoWeights) {
  const TempFolder folder;
  const std::string sections = "[evaluate]\nevery_epochs = 1000\n";
  const fs::path asked = write_job(folder, "asked", "epochs = 1000\n", sections + kDevices);
  Program train({"train", asked.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "asked" / "runs") > 0; }));
  const fs::path run_folder = only_run(folder / "asked" / "runs");
  const store::RunPaths paths{run_folder};
  EXPECT_TRUE(absl::IsPermissionDenied(cli::evaluate_run(paths, std::string(32, 'x')).status()));
  int taken = 0;
  // The evaluator has the lowest priority: on a busy machine it takes its time.
  ASSERT_TRUE(train.until([&] {
    taken += cli::evaluate_run(paths, token_of(run_folder)).ok();
    return taken >= 2;
  }));
  const auto evaluator = children(train.pid(), "evaluator");
  ASSERT_EQ(evaluator.size(), 1u);
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(evaluator[0])),
            std::min(19, getpriority(PRIO_PROCESS, 0) + 19));
  const auto recorded = [&] {
    const std::string metrics = read_text(run_folder / "metrics.jsonl");
    int count = 0;
    for (std::size_t at = 0; (at = metrics.find("\"kind\":\"evaluation\"", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  EXPECT_TRUE(train.until([&] { return recorded() >= taken; })) << "each of them is recorded";
  expect_goes_on_until_stopped(train, folder / "asked" / "runs");
  // The plain run trains on as many samples without outside requests, and without the pace.
  const auto commits = RecordedRun::read(run_folder).commits;
  ASSERT_FALSE(commits.empty());
  const double epochs = static_cast<double>(commits.back().second.committed_after()) / kSmallJobSamples;
  const fs::path plain =
      write_job(folder, "plain", fmt::format("epochs = {}\n", epochs), sections + "[[device]]\ncount = 2\n");
  EXPECT_EQ(run({"train", plain.string()}).status, 0);
  EXPECT_EQ(RecordedRun::read(only_run(folder / "plain" / "runs")).evaluations.size(), 1u);
  EXPECT_TRUE(last_checkpoint(run_folder) == last_checkpoint(only_run(folder / "plain" / "runs")))
      << "the weights are other ones";
  EXPECT_TRUE(absl::IsUnavailable(cli::evaluate_run(paths, token_of(run_folder)).status()))
      << "nobody leads it any more";
}

TEST(Watching, ARunServesItsMetricsWhileItTrains) {
  const TempFolder folder;
  const int port = free_port();
  const fs::path job = write_job(folder, "job", "epochs = 100\n",
                                 fmt::format("[monitor]\nlisten = \"127.0.0.1:{}\"\n{}", port, kDevices));
  Program train({"train", job.string()});
  std::string page;
  ASSERT_TRUE(train.until([&] {
    page = http_get(port, "/metrics");
    return page.find("paceline_commits_total ") != std::string::npos &&
           page.find("device=\"w1\"") != std::string::npos;
  })) << page;
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(page, HasSubstr("device=\"w1\""));
  const std::string health = http_get(port, "/healthz");
  EXPECT_THAT(health, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(health, HasSubstr("training"));
  EXPECT_THAT(http_get(port, "/"), StartsWith("HTTP/1.1 404 ")) << "there are no pages";
  train.signal(SIGTERM);
  train.wait();
  EXPECT_EQ(http_get(port, "/metrics"), "") << "they end with the run";
}

// The list of runs takes its numbers from the last snapshot.
TEST(Watching, TheLastSnapshotOfARunIsOfItsEnd) {
  for (const bool in_virtual_time : {false, true}) {
    const TempFolder folder;
    // The run ends at its target, in the middle of a second and of the data.
    const fs::path job = write_job(folder, "job", "epochs = 4\n",
                                   std::string("[evaluate]\nevery_epochs = 0.53\ntarget = \"loss <= 100\"\n"
                                               "stop_at_target = true\n") +
                                       kDevices);
    std::vector<std::string> words{"train", job.string()};
    if (in_virtual_time) words.emplace_back("--virtual");
    const Ended ended = run(words);
    ASSERT_EQ(ended.status, 0) << ended.errors;
    std::string metrics = read_text(only_run(folder / "job" / "runs") / "metrics.jsonl");
    ASSERT_FALSE(metrics.empty());
    metrics.pop_back();
    const std::string last = metrics.substr(metrics.rfind('\n') + 1);
    EXPECT_THAT(last, HasSubstr("\"snapshot\"")) << in_virtual_time;
    EXPECT_THAT(last, HasSubstr("\"finished\":true")) << in_virtual_time;
  }
}

// A terminal with `paceline top` on it.
class Terminal {
 public:
  Terminal(const fs::path& run, const winsize& size) {
    const std::string program = run_in_shell("printf %s \"$PACELINE\"").output;
    pid_ = forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    setenv("TERM", "vt100", 1);
    unsetenv("COLUMNS");
    unsetenv("LINES");
    execl(program.c_str(), program.c_str(), "top", run.c_str(), nullptr);
    _exit(127);
  }
  ~Terminal() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    close(fd_);
  }
  // The output until it contains `words`, or until ten seconds have passed.
  std::string read_until(const std::string& words) {
    return read([&](const std::string& text) { return text.find(words) != std::string::npos; }, 100);
  }
  // Reads the output that is on its way.
  void drain() {
    read([](const std::string&) { return false; }, 3);
  }
  void resize(const winsize& size) { ioctl(fd_, TIOCSWINSZ, &size); }
  void press(char key) { EXPECT_EQ(::write(fd_, &key, 1), 1); }
  // The exit status, once it has ended.
  int wait() {
    int status = 0;
    EXPECT_TRUE(eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }));
    pid_ = -1;
    return status;
  }

 private:
  std::string read(const std::function<bool(const std::string&)>& enough, int tenths) const {
    std::string text;
    for (int i = 0; i < tenths && !enough(text); ++i) {
      pollfd one{fd_, POLLIN, 0};
      if (poll(&one, 1, 100) <= 0) continue;
      char bytes[4096];
      const ssize_t count = ::read(fd_, bytes, sizeof bytes);
      if (count <= 0) break;
      text.append(bytes, static_cast<std::size_t>(count));
    }
    return text;
  }

  int fd_ = -1;
  pid_t pid_ = -1;
};

// The report shows where the memory of a host goes.
TEST(Watching, EveryProcessOfARunSaysWhatMemoryItHas) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "job", "epochs = 1\n", kDevices);
  ASSERT_EQ(run({"train", job.string()}).status, 0);
  const std::string tables = (folder / "tables").string();
  ASSERT_EQ(run({"export", only_run(folder / "job" / "runs").string(), "--csv", tables}).status, 0);
  const std::string memory = read_text(folder / "tables" / "memory.csv");
  for (const char* process : {"launcher", "coordinator", "server0", "w0", "w1", "evaluator"})
    EXPECT_THAT(memory, testing::ContainsRegex(fmt::format("\n{},[0-9]{{7,9}}\r?\n", process))) << process;
}

TEST(Watching, TopFillsATerminalFollowsItsSizeAndLeavesAtQ) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "job", "epochs = 1\n",
                                 "[[device]]\ncount = 2\npace_ms = 20\n[[device]]\npace_ms = 80\n");
  ASSERT_EQ(run({"train", job.string(), "--virtual"}).status, 0);
  Terminal terminal(only_run(folder / "job" / "runs"),
                    {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0});
  const std::string screen = terminal.read_until("w0");
  EXPECT_THAT(screen, HasSubstr("w2 takes ")) << "the sentence names the slow one";
  EXPECT_THAT(screen, testing::Not(testing::ContainsRegex("\x1b\\[[34][0-9]m"))) << "there are colors";
  terminal.drain();
  terminal.resize({.ws_row = 12, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0});
  EXPECT_THAT(terminal.read_until("w0"), HasSubstr("w0")) << "not drawn again";
  terminal.press('q');
  terminal.drain();
  EXPECT_EQ(terminal.wait(), 0);
}

}  // namespace
}  // namespace paceline::tests
