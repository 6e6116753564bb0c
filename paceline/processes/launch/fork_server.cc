#include "paceline/processes/launch/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/peer/exit_report.h"
#include "paceline/transport/ipc/passed_descriptors.h"

namespace paceline::launch {

namespace {

constexpr std::size_t kLongestRequest = 1 << 16;
// A fork's command line replaces the server's, so this much room is made for it.
constexpr std::size_t kCommandLineRoom = 4096;
// Loading a program and a large folder of images takes long. A server that is stopped is not waited for.
constexpr std::chrono::seconds kLoadLimit(300);
constexpr int kLookForStop_ms = 50;
constexpr useconds_t kLookForParent_us = 100;

struct Reply {
  pid_t pid = -1;
  int error = 0;  // errno of fork()
};

// A request for a fork. Its log and its exit report are passed as descriptors of the same message.
struct Request {
  std::vector<std::string> words;
  FileDescriptor log, exit_report;
};

// Each word with a zero byte behind it.
std::string request_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(word).push_back('\0');
  return text;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// Nothing once the other end is closed.
std::optional<Request> read_request(int socket) {
  auto message = ipc::receive_with_descriptors(socket, kLongestRequest);
  if (!message || message->descriptors.size() != 2) return std::nullopt;
  Request request;
  request.words = split_words(message->text);
  request.log = std::move(message->descriptors[0]);
  request.exit_report = std::move(message->descriptors[1]);
  return request;
}

// While an object of this class lives, forks that lose their parent become this process's children: prctl(2).
class ChildSubreaper {
 public:
  ChildSubreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~ChildSubreaper() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
  ChildSubreaper(const ChildSubreaper&) = delete;
  ChildSubreaper& operator=(const ChildSubreaper&) = delete;
};

// True if an answer arrives within the limit, before this program is stopped.
bool wait_for_answer(int socket) {
  const auto until = std::chrono::steady_clock::now() + kLoadLimit;
  pollfd answer{.fd = socket, .events = POLLIN, .revents = 0};
  while (stop_signals() == 0 && std::chrono::steady_clock::now() < until) {
    if (poll(&answer, 1, kLookForStop_ms) > 0) return true;
  }
  return false;
}

bool one_thread() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return !error && std::distance(begin(threads), end(threads)) == 1;
}

// Tools read the command line at the place where it was when the program began. A text that is too long is
// cut.
void show_command_line(char* room, std::size_t size, const std::vector<std::string>& words) {
  std::memset(room, 0, size);
  std::size_t at = 0;
  for (const std::string& word : words) {
    if (at + word.size() + 1 > size) return;
    at += word.copy(room + at, word.size()) + 1;
  }
}

}  // namespace

absl::StatusOr<ForkServer> ForkServer::start(ChildProgram program, const std::vector<std::string>& arguments,
                                             const std::vector<int>& inherited) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  FileDescriptor own(ends[0]);
  const FileDescriptor others(ends[1]);
  std::vector<std::string> words = arguments;
  words.push_back(std::to_string(others.get()));
  words.emplace_back(kCommandLineRoom, '.');
  std::vector<int> kept = inherited;
  kept.push_back(others.get());
  PACELINE_ASSIGN_OR_RETURN(ChildProcess server,
                            ChildProcess::start(program, kForkServerCommand, words, "/dev/null", kept));
  return ForkServer(std::move(server), std::move(own));
}

absl::StatusOr<ChildProcess> ForkServer::start_child(const std::string& name,
                                                     const std::vector<std::string>& arguments,
                                                     const std::string& log_file) {
  return ChildProcess::start(name, log_file,
                             [&](int log, int exit_report) { return fork(arguments, log, exit_report); });
}

absl::StatusOr<pid_t> ForkServer::fork(const std::vector<std::string>& arguments, int log,
                                       int exit_report) const {
  std::vector<std::string> words = {"paceline"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::string text = request_text(words);
  if (text.size() > kLongestRequest) return absl::UnavailableError("its command line is too long");
  const ChildSubreaper while_it_forks;
  Reply reply;
  if (!ipc::send_with_descriptors(socket_.get(), text, std::array{log, exit_report}) ||
      !wait_for_answer(socket_.get()) ||
      TEMP_FAILURE_RETRY(recv(socket_.get(), &reply, sizeof(reply), 0)) != sizeof(reply))
    return absl::UnavailableError("the fork server is gone");
  if (reply.error != 0) return absl::ResourceExhaustedError(std::strerror(reply.error));
  siginfo_t ignored{};
  if (waitid(P_PID, static_cast<id_t>(reply.pid), &ignored, WEXITED | WNOWAIT | WNOHANG) != 0)
    return absl::UnavailableError("this system gave the fork to another parent");
  return reply.pid;
}

namespace {

// The server forks a process, which forks the wanted one and ends: the orphan goes to the subreaper, which is
// the starter. It is there as soon as the server has seen the end of the process between.
struct Forked {
  bool here = false;  // true in the fork
  Reply reply{};      // set in the server
};

Forked fork_for(const Request& request, pid_t starter) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {.reply = {-1, errno}};
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const pid_t between = ::fork();
  if (between == 0) {
    const pid_t parent = getpid();
    const pid_t pid = ::fork();
    if (pid != 0) {
      const Reply reply{pid, pid < 0 ? errno : 0};
      [[maybe_unused]] const ssize_t written = write(write_end.get(), &reply, sizeof(reply));
      _exit(0);
    }
    while (getppid() == parent) usleep(kLookForParent_us);
    if (!settle_child(request.log.get(), starter)) _exit(127);
    return {.here = true};
  }
  if (between < 0) return {.reply = {-1, errno}};
  write_end = FileDescriptor();
  Reply reply;
  if (TEMP_FAILURE_RETRY(read(read_end.get(), &reply, sizeof(reply))) != sizeof(reply)) reply = {-1, EAGAIN};
  TEMP_FAILURE_RETRY(waitpid(between, nullptr, 0));
  return {.reply = reply};
}

}  // namespace

std::optional<std::vector<std::string>> serve_forks(int argc, char** argv) {
  peer::take_exit_descriptor();
  const pid_t starter = getppid();
  int descriptor = -1;
  if (argc < 3 || !absl::SimpleAtoi(argv[argc - 2], &descriptor) || !one_thread()) return std::nullopt;
  FileDescriptor socket(descriptor);
  fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  const std::size_t room = static_cast<std::size_t>(argv[argc - 1] - argv[0]) + std::strlen(argv[argc - 1]);
  show_command_line(argv[0], room, {"paceline", kForkServerCommand});
  while (std::optional<Request> request = read_request(socket.get())) {
    const Forked forked = fork_for(*request, starter);
    if (forked.here) {
      socket = FileDescriptor();
      peer::use_exit_descriptor(std::move(request->exit_report));
      show_command_line(argv[0], room, request->words);
      return std::move(request->words);
    }
    if (send(socket.get(), &forked.reply, sizeof(forked.reply), MSG_NOSIGNAL) != sizeof(forked.reply)) break;
  }
  return std::nullopt;
}

}  // namespace paceline::launch
