#include "paceline/computing/program/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>

#include "paceline/base/core_dumps.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/timespec.h"
#include "paceline/computing/program/messages.h"

namespace paceline::program {

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// How often a waiting thread looks at other things.
constexpr std::chrono::milliseconds kLook = 100ms;
constexpr int kCannotRun = 127;

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all;
  const auto replaced = [&](const std::string& one) {
    const std::string name = one.substr(0, one.find('=') + 1);
    for (const std::string& other : more)
      if (other.compare(0, name.size(), name) == 0) return true;
    return false;
  };
  for (char** one = environ; *one != nullptr; ++one)
    if (!replaced(*one)) all.emplace_back(*one);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// In the child, between fork and exec: only what is safe there. Its failure goes to `report`.
[[noreturn]] void become(char* const* command, char* const* environment, const char* directory, int socket,
                         int output, int report, pid_t parent) {
  // Without a terminal a program that asks there fails with an error of its own. In a group in the background it would stand
  // still, without a word.
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotRun);  // the parent died before the line above
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) _exit(kCannotRun);
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  // Nothing of ours but the socket: neither connections nor keys.
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  fcntl(socket, F_SETFD, 0);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  // Ctrl-C is for the command that started us all.
  ::signal(SIGINT, SIG_IGN);
  // Clusters warn every process of a job by these signals. The launcher hears them.
  ::signal(SIGUSR1, SIG_IGN);
  ::signal(SIGUSR2, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  put_memory_into_core_dumps();
  if (directory[0] == '\0' || chdir(directory) == 0) execvpe(command[0], command, environment);
  const int error = errno;
  [[maybe_unused]] const auto written = write(report, &error, sizeof error);
  _exit(kCannotRun);
}

// -1 before Linux 5.3, and in containers that forbid it: then Process looks for the end again and again.
int open_pid(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }
constexpr std::chrono::milliseconds kLookWithoutDescriptor{5};

// The status with which a child ended; nothing while it runs. It stays a child until it is waited for.
std::optional<int> end_of(pid_t pid) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid)
    return std::nullopt;
  return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : W_EXITCODE(0, info.si_status);
}

std::string describe(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

}  // namespace

absl::StatusOr<Process> Process::start(const Options& options) {
  const auto cannot = [&](int error) {
    const std::string text =
        fmt::format("cannot start {}: {}{}", options.command.front(), std::strerror(error),
                    error == EACCES ? "; name a Python script (.py), or a file that you may execute" : "");
    return error == ENOENT || error == EACCES || error == ENOTDIR ? absl::NotFoundError(text)
                                                                  : absl::ResourceExhaustedError(text);
  };
  int ends[2];
  int report[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return cannot(errno);
  if (pipe2(report, O_CLOEXEC) != 0) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    return cannot(error);
  }
  std::vector<std::string> command = options.command;
  std::vector<std::string> more = options.environment;
  more.push_back(fmt::format("{}={}", kSocketVariable, ends[1]));
  std::vector<std::string> environment = environment_with(more);
  const std::vector<char*> command_pointers = pointers_to(command);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    become(command_pointers.data(), environment_pointers.data(), options.directory.c_str(), ends[1],
           options.output, report[1], parent);
  }
  const int fork_error = errno;
  close(ends[1]);
  close(report[1]);
  const absl::Cleanup close_report = [&] { close(report[0]); };
  if (pid < 0) {
    close(ends[0]);
    return cannot(fork_error);
  }
  Process process(pid, open_pid(pid), ends[0]);
  int error = 0;
  if (read(report[0], &error, sizeof error) == sizeof error) return cannot(error);
  return process;
}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pid_fd_, other.pid_fd_);
  std::swap(socket_, other.socket_);
  std::swap(received_, other.received_);
  std::swap(searched_, other.searched_);
  std::swap(status_, other.status_);
  std::swap(patience_, other.patience_);
  return *this;
}

Process::~Process() {
  if (socket_ >= 0) close(socket_);
  if (pid_ > 0) {
    ended_within(patience_);
    kill(pid_, SIGKILL);
    kill(-pid_, SIGKILL);  // processes that it left behind
    // The system may give the number to another process from here on.
    waitpid(pid_, nullptr, 0);
  }
  if (pid_fd_ >= 0) close(pid_fd_);
}

bool Process::ended_within(std::chrono::milliseconds limit) {
  if (status_) return true;
  const auto until = steady_clock::now() + limit;
  pollfd end{pid_fd_, POLLIN, 0};
  // A signal to this process ends the waiting early.
  while (pid_fd_ >= 0 && poll(&end, 1, static_cast<int>(limit.count())) < 0 && errno == EINTR)
    limit = std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now()));
  while (pid_fd_ < 0 && !end_of(pid_) && steady_clock::now() < until)
    std::this_thread::sleep_for(kLookWithoutDescriptor);
  status_ = end_of(pid_);
  return status_.has_value();
}

bool Process::wait_for(short events, std::chrono::nanoseconds limit, bool& ready) const {
  const timespec time = timespec_of(limit);
  pollfd both[] = {{socket_, events, 0}, {pid_fd_, POLLIN, 0}};
  ppoll(both, 2, &time, nullptr);
  ready = both[0].revents != 0;
  return pid_fd_ >= 0 ? both[1].revents == 0 : !end_of(pid_);
}

absl::Status Process::send(const std::string& line, const std::function<absl::Status()>& keep_going) {
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t now = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (now > 0) {
      sent += static_cast<std::size_t>(now);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return absl::UnavailableError("does not read any more");
    bool ready = false;
    if (!wait_for(POLLOUT, kLook, ready)) return absl::UnavailableError("has ended");
    if (!ready) PACELINE_RETURN_IF_ERROR(keep_going());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Process::receive(const std::function<absl::Status()>& keep_going) {
  constexpr std::size_t kChunk = 1 << 16;
  while (true) {
    const std::size_t end = received_.find('\n', searched_);
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = received_.size();
    if (received_.size() > kLongestLine) return absl::DataLossError("sent a line that is too long");
    const std::size_t before = received_.size();
    received_.resize(before + kChunk);
    const ssize_t now = recv(socket_, received_.data() + before, kChunk, MSG_DONTWAIT);
    const int error = errno;
    received_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(now, 0)));
    if (now > 0 || (now < 0 && error == EINTR)) continue;
    if (now == 0) return absl::UnavailableError("has closed its socket");
    bool ready = false;
    const bool alive = wait_for(POLLIN, kLook, ready);
    if (ready) continue;  // there may be a last message
    if (!alive) return absl::UnavailableError("has ended");
    PACELINE_RETURN_IF_ERROR(keep_going());
  }
}

bool Process::wait_readable(std::chrono::nanoseconds limit) const {
  if (received_.find('\n', searched_) != std::string::npos) return true;
  bool ready = false;
  const bool alive = wait_for(POLLIN, limit, ready);
  return ready || !alive;
}

void Process::say_no_more() { shutdown(socket_, SHUT_WR); }

std::string Process::how_it_ended() {
  if (!ended_within(patience_)) return "it closed its socket";
  return describe(*status_);
}

ExitReason Process::exit_reason() const {
  const int signal = status_ && WIFSIGNALED(*status_) ? WTERMSIG(*status_) : 0;
  return signal == SIGKILL || signal == SIGTERM ? ExitReason::kKilled : ExitReason::kOwnError;
}

std::optional<std::string> Process::wait_for_end() {
  close(std::exchange(socket_, -1));
  if (!ended_within(patience_)) return std::nullopt;
  return *status_ == 0 ? "" : describe(*status_);
}

// The state is the first word after the name in parentheses, which may hold anything.
bool Process::stands_still() const {
  std::ifstream file(fmt::format("/proc/{}/stat", pid_));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() &&
         (line[name_end + 2] == 'T' || line[name_end + 2] == 't');
}

}  // namespace paceline::program
