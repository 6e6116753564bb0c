#include "paceline/tools/cli/remote_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/shell_word.h"
#include "paceline/base/status_macros.h"

namespace paceline::cli {

namespace {

constexpr int kNoSuchProgram = 127;

struct Pipe {
  FileDescriptor read, write;
};

absl::StatusOr<Pipe> open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) == 0) return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  return absl::ResourceExhaustedError(
      fmt::format("cannot make a pipe: {}", std::generic_category().message(errno)));
}

// Reads all that is there now.
void read_into(const FileDescriptor& from, std::string& text) {
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = ::read(from.get(), part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
}

// Runs in the child, between fork and exec, so it does only what is safe there.
[[noreturn]] void become_ssh(char* const* words, int input, int output, int errors, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNoSuchProgram);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  // Clusters warn every process of a job by these signals.
  ::signal(SIGUSR1, SIG_IGN);
  ::signal(SIGUSR2, SIG_IGN);
  execvp(words[0], words);
  _exit(kNoSuchProgram);
}

}  // namespace

RemoteCommand::RemoteCommand(std::string host, pid_t pid, FileDescriptor input, FileDescriptor out,
                             FileDescriptor err)
    : host_(std::move(host)),
      pid_(pid),
      input_(std::move(input)),
      output_(std::move(out)),
      errors_(std::move(err)) {}

RemoteCommand::RemoteCommand(RemoteCommand&& other) noexcept
    : output(std::move(other.output)),
      errors(std::move(other.errors)),
      host_(std::move(other.host_)),
      pid_(std::exchange(other.pid_, -1)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)),
      status_(other.status_) {}

RemoteCommand::~RemoteCommand() {
  if (pid_ < 0 || status_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

absl::StatusOr<RemoteCommand> RemoteCommand::start(const std::string& host, const std::string& command,
                                                   const std::string& input_file) {
  PACELINE_ASSIGN_OR_RETURN(Pipe input, open_pipe());
  PACELINE_ASSIGN_OR_RETURN(Pipe output, open_pipe());
  PACELINE_ASSIGN_OR_RETURN(Pipe errors, open_pipe());
  if (!input_file.empty()) input.read = FileDescriptor(::open(input_file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!input.read.valid()) return absl::NotFoundError(fmt::format("{}: cannot be read", input_file));
  // A host that is gone is noticed within a minute. Whatever shell a login has, a plain one runs the command.
  std::vector<std::string> words = {"ssh", "-T"};
  for (const char* option :
       {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=4"})
    words.insert(words.end(), {"-o", option});
  words.insert(words.end(), {host, "exec sh -c " + shell_word(command)});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become_ssh(pointers.data(), input.read.get(), output.write.get(), errors.write.get(), parent);
  if (pid < 0)
    return absl::ResourceExhaustedError(
        fmt::format("cannot start ssh: {}", std::generic_category().message(errno)));
  for (const FileDescriptor* end : {&output.read, &errors.read}) fcntl(end->get(), F_SETFL, O_NONBLOCK);
  if (!input_file.empty()) input.write = FileDescriptor();
  return RemoteCommand(host, pid, std::move(input.write), std::move(output.read), std::move(errors.read));
}

std::optional<int> RemoteCommand::look() {
  int status = 0;
  const bool ended = !status_ && waitpid(pid_, &status, WNOHANG) == pid_;
  // Nothing more comes after its end.
  read_into(output_, output);
  read_into(errors_, errors);
  if (ended) status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

}  // namespace paceline::cli
