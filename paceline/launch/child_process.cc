#include "paceline/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <absl/strings/match.h>
#include <fmt/format.h>

namespace paceline::launch {

namespace {

namespace fs = std::filesystem;

// Also when another file has taken the place of this program's meanwhile.
constexpr char kThisProgram[] = "/proc/self/exe";

// A program beside this one; empty: there is none. Where this program's file was replaced another one is not
// of the same build any more.
std::string program_beside(const char* name) {
  std::error_code ignored;
  const fs::path self = fs::read_symlink(kThisProgram, ignored);
  const fs::path other = self.parent_path() / name;
  return fs::exists(self, ignored) && access(other.c_str(), X_OK) == 0 ? other.string() : "";
}

std::string path_of(ChildProgram program) {
  const std::string other = program == ChildProgram::kWithoutTorch ? program_beside("paceline") : "";
  return other.empty() ? kThisProgram : other;
}

// In the child, between fork and exec: only what is safe there.
[[noreturn]] void become(const char* program, char* const* arguments, int log,
                         const std::vector<int>& inherited, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  // Some launchers signal every process of a host. The parent stops its children cleanly.
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_DFL);
  for (const int descriptor : inherited) fcntl(descriptor, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(program, arguments);
  _exit(127);
}

}  // namespace

bool has_torch_program() { return !program_beside("paceline-torch").empty(); }

absl::StatusOr<ChildProcess> ChildProcess::start(ChildProgram program, const std::string& name,
                                                 const std::vector<std::string>& arguments,
                                                 const std::string& log_file,
                                                 const std::vector<int>& inherited) {
  const int log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (log < 0)
    return absl::PermissionDeniedError(fmt::format("{}: cannot write: {}", log_file, std::strerror(errno)));
  const std::string path = path_of(program);
  std::vector<std::string> words = {"paceline"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(path.c_str(), pointers.data(), log, inherited, parent);
  close(log);
  if (pid < 0)
    return absl::ResourceExhaustedError(fmt::format("cannot start {}: {}", name, std::strerror(errno)));
  return ChildProcess(name, log_file, pid);
}

ChildProcess::ChildProcess(std::string name, std::string log_file, pid_t pid)
    : name_(std::move(name)), log_file_(std::move(log_file)), pid_(pid) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      log_file_(std::move(other.log_file_)),
      pid_(std::exchange(other.pid_, -1)),
      status_(other.status_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(log_file_, other.log_file_);
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || status_) return;
  signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<int> ChildProcess::ended() {
  int status = 0;
  if (!status_ && pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_;
}

void ChildProcess::signal(int number) {
  if (pid_ > 0 && !status_) kill(pid_, number);
}

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
  }
  return fmt::format("exit status {}", WEXITSTATUS(wait_status));
}

std::string last_line(const std::string& log_file) {
  std::ifstream log(log_file);
  std::string last;
  for (std::string line; std::getline(log, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

std::string reason_of(const ChildProcess& child, int wait_status) {
  constexpr char kErrorPrefix[] = "paceline: ";
  const std::string line = last_line(child.log_file());
  const bool said = WIFEXITED(wait_status) && absl::StartsWith(line, kErrorPrefix);
  if (said) return line.substr(sizeof(kErrorPrefix) - 1);
  const std::string end = fmt::format("{}: {}", child.name(), describe_end(wait_status));
  return line.empty() ? end : fmt::format("{}; its log is {}", end, child.log_file());
}

}  // namespace paceline::launch
