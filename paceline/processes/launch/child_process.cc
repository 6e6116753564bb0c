#include "paceline/processes/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"
#include "paceline/processes/launch/oom_kills.h"

namespace paceline::launch {

namespace {

namespace fs = std::filesystem;

// This path works even if another file has replaced this program meanwhile.
constexpr char kThisProgram[] = "/proc/self/exe";

// The longest time from an out-of-memory kill in the system's count to the process's end.
constexpr std::chrono::seconds kDying{2};
// The same for a process whose program was killed: it notices that and ends by itself.
constexpr std::chrono::seconds kProgramDying{10};

// A program beside this one; empty if there is none, or if this program's file was replaced, because then the
// other program may be of another build.
std::string program_beside(const char* name) {
  std::error_code ignored;
  const fs::path self = fs::read_symlink(kThisProgram, ignored);
  const fs::path other = self.parent_path() / name;
  return fs::exists(self, ignored) && access(other.c_str(), X_OK) == 0 ? other.string() : "";
}

std::string path_of(ChildProgram program) {
  if (program == ChildProgram::kThis) return kThisProgram;
  const std::string other =
      program_beside(program == ChildProgram::kWithTorch ? "paceline-torch" : "paceline");
  return other.empty() ? kThisProgram : other;
}

// The file may be a pipe in a folder that another person made: without O_NONBLOCK it would keep this process
// waiting for a reader. /dev/null is for children whose output nobody wants.
absl::StatusOr<FileDescriptor> open_log(const std::string& file) {
  FileDescriptor log(open(
      file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  struct stat about {};
  const bool is_fine = log.valid() && fstat(log.get(), &about) == 0 &&
                       (S_ISREG(about.st_mode) || (S_ISCHR(about.st_mode) && about.st_rdev == makedev(1, 3)));
  if (is_fine && fcntl(log.get(), F_SETFL, O_APPEND) == 0) return log;
  const bool other = log.valid() || errno == ENXIO || errno == ELOOP;
  return absl::PermissionDeniedError(fmt::format(
      "{}: cannot write: {}", file,
      other ? "it is no plain file; move it away, and look at what else is in this folder before you go on"
            : std::strerror(errno)));
}

// Runs in the child, between fork and exec: does only what is safe there.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment, int log,
                         const std::vector<int>& inherited, pid_t parent) {
  if (!settle_child(log, parent)) _exit(127);
  for (const int descriptor : inherited) fcntl(descriptor, F_SETFD, 0);
  execve(program, arguments, environment);
  _exit(127);
}

}  // namespace

bool settle_child(int log, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return false;  // the parent died before the line above
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  // A child in a group of its own would be stopped if it read the terminal, and input through a pipe is for
  // other processes.
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return false;
  if (nothing != STDIN_FILENO) close(nothing);
  // Some launchers signal every process of a host. The parent stops its children cleanly.
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGUSR1, SIG_IGN);
  ::signal(SIGUSR2, SIG_IGN);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  return true;
}

bool has_torch_program() { return !program_beside("paceline-torch").empty(); }

absl::StatusOr<ChildProcess> ChildProcess::start(ChildProgram program, const std::string& name,
                                                 const std::vector<std::string>& arguments,
                                                 const std::string& log_file,
                                                 const std::vector<int>& inherited) {
  const std::string path = path_of(program);
  std::vector<std::string> words = {"paceline"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  return start(name, log_file, [&](int log, int exit_report) -> absl::StatusOr<pid_t> {
    std::string variable = peer::ExitPipe::environment(exit_report);
    std::vector<char*> environment;
    for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
    environment.insert(environment.end(), {variable.data(), nullptr});
    std::vector<int> kept = inherited;
    kept.push_back(exit_report);
    const pid_t pid = fork();
    if (pid == 0) become(path.c_str(), pointers.data(), environment.data(), log, kept, parent);
    if (pid < 0) return absl::ResourceExhaustedError(std::strerror(errno));
    return pid;
  });
}

absl::StatusOr<ChildProcess> ChildProcess::start(const std::string& name, const std::string& log_file,
                                                 const Spawn& spawn) {
  PACELINE_ASSIGN_OR_RETURN(const FileDescriptor log, open_log(log_file));
  PACELINE_ASSIGN_OR_RETURN(peer::ExitPipe exit_pipe, peer::ExitPipe::open());
  const absl::StatusOr<pid_t> pid = spawn(log.get(), exit_pipe.child_end());
  exit_pipe.close_child_end();
  if (!pid.ok())
    return absl::Status(pid.status().code(),
                        fmt::format("cannot start {}: {}", name, message_of(pid.status())));
  return ChildProcess(name, log_file, *pid, std::move(exit_pipe));
}

ChildProcess::ChildProcess(std::string name, std::string log_file, pid_t pid, peer::ExitPipe exit_pipe)
    : name_(std::move(name)),
      log_file_(std::move(log_file)),
      pid_(pid),
      exit_pipe_(std::move(exit_pipe)),
      oom_kills_(oom_kills()) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      log_file_(std::move(other.log_file_)),
      pid_(std::exchange(other.pid_, -1)),
      exit_pipe_(std::move(other.exit_pipe_)),
      end_(std::move(other.end_)),
      oom_kills_(other.oom_kills_),
      last_oom_kill_at_(other.last_oom_kill_at_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(log_file_, other.log_file_);
  std::swap(pid_, other.pid_);
  std::swap(exit_pipe_, other.exit_pipe_);
  std::swap(end_, other.end_);
  std::swap(oom_kills_, other.oom_kills_);
  std::swap(last_oom_kill_at_, other.last_oom_kill_at_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || end_) return;
  signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

namespace {

// True if another process killed it: then its log does not say why.
bool killed_from_outside(int wait_status) {
  return WIFSIGNALED(wait_status) && (WTERMSIG(wait_status) == SIGKILL || WTERMSIG(wait_status) == SIGTERM);
}

}  // namespace

std::optional<ChildProcess::End> ChildProcess::ended() {
  if (end_ || pid_ < 0) return end_;
  int status = 0;
  const bool ended = waitpid(pid_, &status, WNOHANG) == pid_;
  const auto now = std::chrono::steady_clock::now();
  const std::int64_t before = std::exchange(oom_kills_, oom_kills());
  if (oom_kills_ > before) last_oom_kill_at_ = now;
  if (!ended) return std::nullopt;
  end_ = End{status, exit_pipe_.read(), false};
  if (killed_from_outside(status)) end_->said = {ExitReason::kKilled};
  const auto since = now - last_oom_kill_at_;
  end_->out_of_memory = WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL && since < kDying
                                            : end_->killed() && since < kProgramDying;
  return end_;
}

ChildProcess::End ChildProcess::wait() {
  siginfo_t ignored{};
  while (!ended()) waitid(P_PID, static_cast<id_t>(pid_), &ignored, WEXITED | WNOWAIT);
  return *end_;
}

bool ChildProcess::End::killed() const {
  return WIFSIGNALED(wait_status) || said.reason == ExitReason::kKilled;
}

void ChildProcess::signal(int number) {
  if (pid_ > 0 && !end_) kill(pid_, number);
}

std::string ChildProcess::End::in_words() const {
  const char* const why = out_of_memory ? "out of memory: " : "";
  if (WIFSIGNALED(wait_status))
    return fmt::format("{}killed by signal {} ({})", why, WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)));
  if (killed()) return why + said.message;
  return fmt::format("exit status {}", WEXITSTATUS(wait_status));
}

absl::Status reason_of(const ChildProcess& child, const ChildProcess::End& end) {
  const ExitReason reason = end.said.reason;
  const bool by_program = reason == ExitReason::kKilled && !WIFSIGNALED(end.wait_status);
  const std::string words = by_program ? end.in_words() : fmt::format("{}: {}", child.name(), end.in_words());
  if (reason == ExitReason::kKilled) return with_exit_reason(absl::UnavailableError(words), reason);
  if (reason != ExitReason::kUnsaid)
    return with_exit_reason(absl::UnavailableError(end.said.message), reason);
  std::error_code ignored;
  const bool has_log = fs::file_size(child.log_file(), ignored) > 0 && !ignored;
  return with_exit_reason(
      absl::UnavailableError(has_log ? fmt::format("{}; its log is {}", words, child.log_file()) : words),
      reason);
}

}  // namespace paceline::launch
