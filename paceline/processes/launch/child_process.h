// A child process, which dies with this process. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/processes/peer/exit_report.h"

namespace paceline::launch {

// kThis: this program itself. The others are beside it: kWithoutTorch is `paceline`, and kWithTorch is
// `paceline-torch`, which has the built-in models, starts more slowly and is larger.
enum class ChildProgram { kThis, kWithoutTorch, kWithTorch };
// True if `paceline-torch`, which has the built-in models, is installed here.
bool has_torch_program();

class ChildProcess {
 public:
  // Runs a program with `arguments`, and appends its output to `log_file`. `inherited`: descriptors that it
  // gets unchanged. The child is in a process group of its own and ignores Ctrl-C and SIGTERM, which are
  // meant for this process; and it is killed when this process dies for any reason.
  static absl::StatusOr<ChildProcess> start(ChildProgram program, const std::string& name,
                                            const std::vector<std::string>& arguments,
                                            const std::string& log_file,
                                            const std::vector<int>& inherited = {});
  // The same for a process that another function starts: `spawn` gets the descriptors of the child's output
  // and of its exit report, and returns its process id. It is a child of this process, in a process group of
  // its own.
  using Spawn = std::function<absl::StatusOr<pid_t>(int log, int exit_report)>;
  static absl::StatusOr<ChildProcess> start(const std::string& name, const std::string& log_file,
                                            const Spawn& spawn);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  // Kills the process if it still runs, and waits for its end.
  ~ChildProcess();

  // How the process ended; nothing while it runs. Does not wait.
  struct End {
    int wait_status = 0;
    peer::ExitReport said{};
    bool out_of_memory = false;  // whether the system killed it because memory ran out
    // Whether it ended by a signal, or because its program was killed.
    bool killed() const;
    // A text for people: "exit status 2", "killed by signal 9 (Killed)", "out of memory: killed by signal 9
    // (Killed)", "train.py: the program ended (killed by signal 9 (Killed))".
    std::string in_words() const;
  };
  std::optional<End> ended();
  // Waits for its end.
  End wait();
  // Sends it a signal if it runs.
  void signal(int number);

  const std::string& name() const { return name_; }
  const std::string& log_file() const { return log_file_; }
  pid_t pid() const { return pid_; }

 private:
  ChildProcess(std::string name, std::string log_file, pid_t pid, peer::ExitPipe exit_pipe);

  std::string name_;
  std::string log_file_;
  pid_t pid_ = -1;
  peer::ExitPipe exit_pipe_;
  std::optional<End> end_;
  std::int64_t oom_kills_;                                    // the count at the latest look
  std::chrono::steady_clock::time_point last_oom_kill_at_{};  // when that count grew last
};

// Turns a process that has just been forked into a child as described above. Does only what is safe between
// fork and exec. False if `parent` is gone by now.
bool settle_child(int log, pid_t parent);

// The reason why a process ended: its own line, or the path of its log. With its ExitReason.
absl::Status reason_of(const ChildProcess& child, const ChildProcess::End& end);

}  // namespace paceline::launch
