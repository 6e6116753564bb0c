#include "tests/program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

namespace paceline::tests {

namespace fs = std::filesystem;

namespace {

constexpr char kProgram[] = PACELINE_PROGRAM;

[[noreturn]] void become(std::vector<std::string> words, const fs::path& output, const fs::path& errors) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  dup2(open(output.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
  dup2(open(errors.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
  execv(pointers.front(), pointers.data());
  _exit(127);
}

}  // namespace

TempFolder::TempFolder() {
  std::string name = (fs::temp_directory_path() / "paceline-test-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Program::Program(const std::vector<std::string>& arguments, const std::function<bool()>& first) {
  std::vector<std::string> words = {kProgram};
  words.insert(words.end(), arguments.begin(), arguments.end());
  start(std::move(words), first);
}

Program::Program(InShell, const std::string& line) {
  start({"/bin/sh", "-c", line}, [] { return setenv("PACELINE", kProgram, 1) == 0; });
}

void Program::start(std::vector<std::string> words, const std::function<bool()>& first) {
  pid_ = fork();
  if (pid_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);                                      // for a test that is killed itself
  for (const int number : {SIGINT, SIGTERM}) ::signal(number, SIG_DFL);  // a shell's "&" makes them ignored
  if (first && !first()) _exit(126);
  become(std::move(words), folder_ / "output", folder_ / "errors");
}

Program::~Program() {
  if (ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::signal(int number) const { kill(pid_, number); }

bool Program::running() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

std::string Program::output_so_far() const { return read_text(folder_ / "output"); }

std::string Program::errors_so_far() const { return read_text(folder_ / "errors"); }

Ended Program::wait(int seconds) {
  if (!eventually([this] { return !running(); }, seconds)) {
    ADD_FAILURE() << "paceline did not end within " << seconds << " s";
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
    ended_ = true;
  }
  return {status(), output_so_far(), errors_so_far()};
}

int Program::status() const { return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_); }

::testing::AssertionResult Program::until(const std::function<bool()>& condition, int seconds) {
  bool holds = false;
  eventually(
      [&] {
        const bool goes_on = running();  // asked first: the program may do it, and end
        holds = condition();
        return holds || !goes_on;
      },
      seconds);
  if (holds) return ::testing::AssertionSuccess();
  ::testing::AssertionResult result = ::testing::AssertionFailure();
  if (ended_) {
    result << "paceline has ended with status " << status() << " and did not do it";
  } else {
    result << "paceline did not do it within " << seconds << " s";
  }
  return result << "; its output:\n" << output_so_far() << "its errors:\n" << errors_so_far();
}

::testing::AssertionResult Program::until_said(const std::string& words, int seconds) {
  return until([&] { return errors_so_far().find(words) != std::string::npos; }, seconds);
}

Ended run(const std::vector<std::string>& arguments) { return Program(arguments).wait(); }

Ended run_in_shell(const std::string& line) { return Program(InShell{}, line).wait(); }

std::vector<pid_t> children(pid_t parent, const std::string& word) {
  std::vector<pid_t> found;
  std::ifstream list("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  for (pid_t child = 0; list >> child;) {
    const std::string line = read_text("/proc/" + std::to_string(child) + "/cmdline");
    if ((line + '\0').find('\0' + word + '\0') != std::string::npos) found.push_back(child);
  }
  return found;
}

std::vector<std::string> reach_of(pid_t peer) {
  std::vector<std::string> words;
  std::istringstream line(read_text("/proc/" + std::to_string(peer) + "/cmdline"));
  for (std::string word; std::getline(line, word, '\0');) {
    if (word.empty()) break;  // a fork has room behind its words
    if (!words.empty() || word == "--coordinator") words.push_back(word);
  }
  // The processes of a run read the address in a file.
  if (words.size() > 1 && words[1].starts_with('@')) {
    const std::string said = read_text(words[1].substr(1));
    words[1] = said.substr(0, said.find('\n'));
  }
  return words;
}

std::vector<std::string> worker_beside(pid_t worker, const std::string& name) {
  std::vector<std::string> words = {"worker", "--name", name};
  for (std::string& word : reach_of(worker)) words.push_back(std::move(word));
  std::istringstream line(read_text("/proc/" + std::to_string(worker) + "/cmdline"));
  for (std::string word; std::getline(line, word, '\0');) {
    if (word != "--job") continue;
    std::getline(line, word, '\0');
    words.insert(words.end(), {"--job", word});
  }
  return words;
}

// A port below those that the system gives to processes that ask for any, so that it stays free while no
// process listens on it. If hardly any are below them, it is one of the system's.
int free_port() {
  constexpr int kLowest = 10000, kMost = 20000, kFew = 1000, kTries = 100;
  int first_given = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first_given;
  const int below = std::min(first_given - kLowest, kMost);
  const auto ports = static_cast<unsigned>(below < kFew ? kMost : below);
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    const int port = kLowest + static_cast<int>(random() % ports);
    const sockaddr_in address{.sin_family = AF_INET,
                              .sin_port = htons(static_cast<std::uint16_t>(port)),
                              .sin_addr = {htonl(INADDR_LOOPBACK)},
                              .sin_zero = {}};
    const int probe = socket(AF_INET, SOCK_STREAM, 0);
    const bool free = bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(probe);
    if (free) return port;
  }
  ADD_FAILURE() << "no port is free";
  return 0;
}

bool eventually(const std::function<bool()>& condition, int seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();  // does not throw if the process of this file ends meanwhile
  return text.str();
}

fs::path only_run(const fs::path& runs) {
  std::vector<fs::path> found;
  std::error_code ignored;  // there is no folder before a run has begun
  for (const auto& entry : fs::directory_iterator(runs, ignored)) {
    if (fs::exists(entry.path() / "job.toml")) found.push_back(entry.path());
  }
  EXPECT_EQ(found.size(), 1u) << "run folders in " << runs;
  return found.empty() ? fs::path() : found.front();
}

}  // namespace paceline::tests
