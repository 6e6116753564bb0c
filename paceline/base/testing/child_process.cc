#include "paceline/base/testing/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "paceline/base/check.h"

namespace paceline::testing {

void ChildProcess::Parent::say(const std::string& line) const {
  const std::string text = line + "\n";
  PACELINE_CHECK(write(out_, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "cannot say {}",
                 line);
}

std::string ChildProcess::Parent::hear() const {
  std::string line;
  for (char c = 0; read(in_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

ChildProcess::ChildProcess(const std::function<int(const Parent&)>& run) {
  std::array<int, 2> down{};
  std::array<int, 2> up{};
  PACELINE_CHECK(pipe2(down.data(), O_CLOEXEC) == 0 && pipe2(up.data(), O_CLOEXEC) == 0, "no pipes");
  const pid_t parent = getpid();
  pid_ = fork();
  PACELINE_CHECK(pid_ >= 0, "no child");
  if (pid_ == 0) {
    // The child also dies if the test itself is killed because it takes too long.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    close(down[1]);
    close(up[0]);
    _exit(run(Parent(down[0], up[1])));
  }
  close(down[0]);
  close(up[1]);
  in_ = up[0];
  out_ = down[1];
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) kill();
  close(in_);
  close(out_);
}

void ChildProcess::kill() {
  ::kill(pid_, SIGKILL);
  wait();
}

int ChildProcess::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace paceline::testing
